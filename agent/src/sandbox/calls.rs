//! seccomp: system calls that reach into other processes, the kernel or new namespaces fail.
//! Builds and tests need none of them.

use std::collections::BTreeMap;

use nix::libc;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};

use super::{SandboxError, broken_sandbox};

/// Fail with EPERM, whatever the arguments.
const FORBIDDEN: [i64; 38] = [
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Namespaces and mounts.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    // Files by handle, past every path rule.
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    // The kernel.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_syslog,
    // The user's keys outlive the process.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
];

/// Fail as on a disk that has none: tools that copy attributes go on without. Landlock does not keep a command from
/// changing those of files that it may not write.
const ATTRIBUTES: [i64; 9] = [
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    SETXATTRAT,
    REMOVEXATTRAT,
    FILE_SETATTR,
];
/// System calls whose numbers are the same on every processor.
const SETXATTRAT: i64 = 463;
const REMOVEXATTRAT: i64 = 466;
const FILE_SETATTR: i64 = 469;
/// Calls by which an owner changes a file that is open for reading alone: its flags, by which it may be made
/// immutable or append-only, and its seal (fs-verity), which no owner takes back.
const FILE_FLAGS: [u64; 4] = [0x4008_6602, 0x4004_6602, 0x401c_5820, 0x4080_6685];

/// System calls that are refused as if the kernel did not know them: programs fall back to calls that can be
/// filtered.
const UNKNOWN: [i64; 4] = [
    libc::SYS_clone3,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

const NAMESPACES: [i32; 7] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];
const SOCKETS: [i32; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
const F_SETLEASE: u64 = 1024;
/// Typing into somebody's terminal.
const TERMINAL: [u64; 2] = [0x5412, 0x541c];

pub(super) fn restrict_calls() -> Result<(), SandboxError> {
    let eperm = libc::EPERM.unsigned_abs();
    let enosys = libc::ENOSYS.unsigned_abs();
    let mut forbidden: BTreeMap<i64, Vec<SeccompRule>> =
        FORBIDDEN.iter().map(|call| (*call, vec![])).collect();
    let flags = NAMESPACES.iter().map(|flag| {
        let bits = u64::from(flag.unsigned_abs());
        seccomp_rule(&[(0, SeccompCmpOp::MaskedEq(bits), bits)])
    });
    forbidden.insert(libc::SYS_clone, flags.collect::<Result<_, _>>()?);
    let other: Vec<_> =
        SOCKETS.iter().map(|kind| (0, SeccompCmpOp::Ne, u64::from(kind.unsigned_abs()))).collect();
    forbidden.insert(libc::SYS_socket, vec![seccomp_rule(&other)?]);
    let ioctls = TERMINAL.iter().chain(&FILE_FLAGS);
    let ioctls = ioctls.map(|call| seccomp_rule(&[(1, SeccompCmpOp::Eq, *call)]));
    forbidden.insert(libc::SYS_ioctl, ioctls.collect::<Result<_, _>>()?);
    // A lease on a file holds up whoever opens it to write, for 45 seconds; it takes no more than reading it.
    let lease = seccomp_rule(&[(1, SeccompCmpOp::Eq, F_SETLEASE)])?;
    forbidden.insert(libc::SYS_fcntl, vec![lease]);
    // The limits of other processes: nothing else keeps those of one user apart, the toolbox' own among them.
    forbidden.insert(libc::SYS_prlimit64, vec![seccomp_rule(&[(0, SeccompCmpOp::Ne, 0)])?]);
    let none = libc::ENOTSUP.unsigned_abs();
    install_rules(ATTRIBUTES.iter().map(|call| (*call, vec![])).collect(), none)?;
    install_rules(forbidden, eperm)?;
    install_rules(UNKNOWN.iter().map(|call| (*call, vec![])).collect(), enosys)
}

fn seccomp_rule(conditions: &[(u8, SeccompCmpOp, u64)]) -> Result<SeccompRule, SandboxError> {
    let conditions = conditions.iter().map(|(argument, how, value)| {
        SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, how.clone(), *value)
    });
    let conditions = conditions.collect::<Result<Vec<_>, _>>().map_err(broken_sandbox)?;
    SeccompRule::new(conditions).map_err(broken_sandbox)
}

fn install_rules(rules: BTreeMap<i64, Vec<SeccompRule>>, errno: u32) -> Result<(), SandboxError> {
    let arch = std::env::consts::ARCH.try_into().map_err(broken_sandbox)?;
    let mut rules = rules;
    #[cfg(target_arch = "x86_64")]
    {
        // The same calls by their x32 numbers.
        let twins: Vec<_> =
            rules.iter().map(|(call, how)| (call | 0x4000_0000, how.clone())).collect();
        rules.extend(twins);
    }
    let (allow, refuse) = (SeccompAction::Allow, SeccompAction::Errno(errno));
    let filter = SeccompFilter::new(rules, allow, refuse, arch).map_err(broken_sandbox)?;
    let program: BpfProgram = filter.try_into().map_err(broken_sandbox)?;
    apply_filter(&program).map_err(broken_sandbox)
}
