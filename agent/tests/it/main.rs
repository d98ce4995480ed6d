//! The real binary, as its containers run it: `run` and `toolbox` as processes, a gateway over TLS
//! and a Git server inside the test.

mod crash;
mod gateway;
mod life;
mod toolbox;
mod world;
