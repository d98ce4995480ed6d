//! A GitHub of bare repositories.
