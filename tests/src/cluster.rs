//! The cluster that a test or the demo runs on: embedded, or a real API server.
