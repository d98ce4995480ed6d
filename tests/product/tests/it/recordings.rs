//! The services' own specifications of their answers, against what the fakes answer.

mod github;
mod openrouter;
mod shapes;
mod slack;
