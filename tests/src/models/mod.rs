//! An OpenAI-compatible server that plays a script.
