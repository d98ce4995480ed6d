//! The system calls for which no safe wrapper exists. Everything unsafe of the testbed is here.
//!
//! All but [`own_descriptor`] are for the re-executed helper only: a process with one thread.

#![allow(unsafe_code, reason = "fork, capabilities and the mount API have no safe wrappers")]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use nix::libc;
use nix::unistd::{ForkResult, Pid};

/// A recursive copy of a mount may be read-only, and never honours set-uid bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MountAccess {
    /// Writes are passed on to the source.
    ReadWrite,
    /// Writes fail with `EROFS`, in mounts below it too.
    ReadOnly,
}

/// Forks. `None` in the child.
pub(super) fn fork_process() -> io::Result<Option<Pid>> {
    // SAFETY: the helper has a single thread, so the child may go on using the allocator.
    match unsafe { nix::unistd::fork() }? {
        ForkResult::Parent { child } => Ok(Some(child)),
        ForkResult::Child => Ok(None),
    }
}

/// Closes every descriptor above standard error, whoever left it open. For the very start of a
/// process, which owns none yet.
pub(super) fn close_inherited() -> io::Result<()> {
    // SAFETY: takes three integers; no value of this process owns any of these descriptors.
    check_result(unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, 0) })
}

/// Takes ownership of a descriptor that the kernel has just made.
pub(super) fn own_descriptor(received: RawFd) -> OwnedFd {
    // SAFETY: a system call made it for the caller, and nobody else knows its number.
    unsafe { OwnedFd::from_raw_fd(received) }
}

/// A descriptor that becomes readable when the child `pid` ends.
pub(super) fn open_pidfd(pid: Pid) -> io::Result<OwnedFd> {
    // SAFETY: takes two integers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0) };
    check_result(fd)?;
    Ok(own_descriptor(i32::try_from(fd).map_err(io::Error::other)?))
}

/// Waits until one of the two can be read, and says which.
pub(super) fn either_readable(first: impl AsFd, second: impl AsFd) -> io::Result<(bool, bool)> {
    let wish = |fd: RawFd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut fds = [wish(first.as_fd().as_raw_fd()), wish(second.as_fd().as_raw_fd())];
    // SAFETY: the array outlives the call and its length is passed along.
    check_result(unsafe { libc::poll(fds.as_mut_ptr(), 2, -1) }.into())?;
    Ok((fds[0].revents != 0, fds[1].revents != 0))
}

/// Makes this process, and those that it starts, see a kernel without Landlock. Needs `no_new_privs`.
pub(super) fn forget_landlock() -> io::Result<()> {
    let step = |code: u32, (jt, jf): (u8, u8), k: u32| libc::sock_filter {
        code: u16::try_from(code).unwrap_or_default(),
        jt,
        jf,
        k,
    };
    let asked = u32::try_from(libc::SYS_landlock_create_ruleset).map_err(io::Error::other)?;
    let unknown = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned();
    let mut filter = [
        // The system call's number is the first word of what a filter is shown.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, (0, 0), 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, (0, 1), asked),
        step(libc::BPF_RET | libc::BPF_K, (0, 0), unknown),
        step(libc::BPF_RET | libc::BPF_K, (0, 0), libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: 4, filter: filter.as_mut_ptr() };
    // SAFETY: the program and its four instructions outlive the call, which copies them.
    let done = unsafe {
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, std::ptr::from_ref(&program))
    };
    check_result(done.into())
}

/// Sets the host name of the current UTS namespace.
pub(super) fn set_hostname(name: &str) -> io::Result<()> {
    // SAFETY: pointer and length describe one live buffer.
    check_result(unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) }.into())
}

/// Clones the mount at `source`, with the mounts below it, and attaches the copy on `target`.
/// Both are `O_PATH` descriptors, so neither name can be swapped in between.
pub(super) fn bind_mount(
    source: impl AsFd,
    target: impl AsFd,
    access: MountAccess,
) -> io::Result<()> {
    const EMPTY: &CStr = c"";
    let flags = libc::OPEN_TREE_CLONE
        | libc::O_CLOEXEC.cast_unsigned()
        | (libc::AT_RECURSIVE | libc::AT_EMPTY_PATH).cast_unsigned();
    // SAFETY: a live descriptor, a static C string and integers.
    let tree = unsafe {
        libc::syscall(libc::SYS_open_tree, source.as_fd().as_raw_fd(), EMPTY.as_ptr(), flags)
    };
    check_result(tree)?;
    // SAFETY: the kernel has just returned this descriptor and nobody else owns it.
    let tree = unsafe { OwnedFd::from_raw_fd(i32::try_from(tree).map_err(io::Error::other)?) };
    let read_only = if access == MountAccess::ReadOnly { libc::MOUNT_ATTR_RDONLY } else { 0 };
    set_attributes(&tree, libc::MOUNT_ATTR_NOSUID | read_only)?;
    // SAFETY: live descriptors, static C strings and integers.
    check_result(unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            tree.as_raw_fd(),
            EMPTY.as_ptr(),
            target.as_fd().as_raw_fd(),
            EMPTY.as_ptr(),
            libc::MOVE_MOUNT_F_EMPTY_PATH | libc::MOVE_MOUNT_T_EMPTY_PATH,
        )
    })
}

/// Makes the mount that `mount` is the root of read-only, with the mounts below it only where
/// `bind` has already done so.
pub(super) fn make_read_only(mount: impl AsFd) -> io::Result<()> {
    set_attributes_with(mount, libc::MOUNT_ATTR_RDONLY, 0)
}

fn set_attributes(mount: impl AsFd, attributes: u64) -> io::Result<()> {
    set_attributes_with(mount, attributes, libc::AT_RECURSIVE)
}

fn set_attributes_with(mount: impl AsFd, attributes: u64, flags: i32) -> io::Result<()> {
    let attr = libc::mount_attr { attr_set: attributes, attr_clr: 0, propagation: 0, userns_fd: 0 };
    // SAFETY: `attr` outlives the call and its size is passed along.
    check_result(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_fd().as_raw_fd(),
            c"".as_ptr(),
            flags | libc::AT_EMPTY_PATH,
            &raw const attr,
            size_of::<libc::mount_attr>(),
        )
    })
}

/// Empties every capability set of this process, for good: the bounding set too, and uid 0 gets
/// nothing back by executing a program.
pub(super) fn drop_capabilities() -> io::Result<()> {
    /// `SECBIT_NOROOT`, `SECBIT_NO_SETUID_FIXUP`, `SECBIT_NO_CAP_AMBIENT_RAISE`, each locked.
    const SECURE_BITS: libc::c_ulong = 0b1100_1111;
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    // SAFETY: integers only.
    unsafe {
        check_result(libc::prctl(libc::PR_SET_SECUREBITS, SECURE_BITS, 0, 0, 0).into())?;
        for capability in 0..64_u64 {
            // The first number that the kernel doesn't know ends the list.
            if libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) != 0 {
                break;
            }
        }
    }
    let header = Header { version: 0x2008_0522, pid: 0 };
    let none = [[0_u32; 3]; 2];
    // SAFETY: both structures have the layout of version 3 and outlive the call.
    check_result(unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) })
}

fn check_result(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
