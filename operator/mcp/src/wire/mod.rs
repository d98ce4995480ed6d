//! Transports: bytes of a pipe, streamable HTTP, and the older form with server-sent events. What comes in passes
//! through one lenient reader, so that the SDK above only sees messages that it can't lose anything of.

mod dialer;
pub(crate) mod events_http;
pub(crate) mod http;
mod intake;
mod params;
mod pipe;
mod repair;
mod sse;

pub use dialer::{BodyStream, DialError, HttpDialer};
pub(crate) use intake::{Intake, RAW_METHOD, RESULT_KEY, STATELESS, ServerGreeting};
pub(crate) use pipe::{PipeTransport, read_error_lines};
