//! The real binary, as its containers run it: `run` and `toolbox` as processes, a gateway over TLS
//! and a Git server inside the test.

// Helpers are tests too: what fails here fails the test.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod answers;
mod crash;
mod documents;
mod ends;
mod experiments;
mod first_look;
mod forgetting;
mod found;
mod gateway;
mod guides;
mod inside;
mod keeping;
mod keepsakes;
mod life;
mod parallel;
mod patience;
mod pictures;
mod plans;
mod redteam;
mod screenshots;
mod searching;
mod seat;
mod server_pod;
mod servers;
mod setup;
mod steer;
mod switching;
mod toolbox;
mod voice;
mod world;
