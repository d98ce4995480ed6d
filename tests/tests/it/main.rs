//! Integration tests of the testbed, one binary.

mod sandbox;
