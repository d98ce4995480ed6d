//! Scenario files: a whole conversation with expectations.
