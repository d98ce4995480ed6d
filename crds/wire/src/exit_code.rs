//! Exit codes of an agent pod's containers, from which the controller reads how they ended. Any other code is a
//! crash.

/// The gateway could not be reached for a minute: nobody's fault here, and no failed run.
pub const GATEWAY_AWAY: u8 = 3;
/// The gateway did not let the role work, and has told the thread or the Repo why.
pub const GATEWAY_REFUSED: u8 = 4;
/// The volume can't be written by the pod's user.
pub const VOLUME_NOT_WRITABLE: u8 = 5;
/// The node can't confine commands, of which the role may run some.
pub const NOT_CONFINED: u8 = 6;
/// Told to stop from outside: 128 and SIGTERM's number, as shells have it.
pub const TOLD_TO_STOP: u8 = 143;
