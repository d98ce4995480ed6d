//! Slack's Web API and Socket Mode.
