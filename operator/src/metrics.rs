//! `/metrics`, `/healthz` and `/readyz`, served by both processes on their own port.
