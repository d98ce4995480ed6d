//! What the services' own specifications say of their answers, against what the fakes answer.

mod github;
mod openrouter;
mod shapes;
mod slack;
