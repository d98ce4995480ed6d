//! A container's root: a fresh tmpfs with the host's programs read-only, a small `/etc` and `/dev`,
//! its own `/proc`, and the volumes. Nothing else of the host is in it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::Mode;
use nix::unistd::{fchdir, pivot_root, symlinkat};

use super::paths::{make_file, make_folder, open_beneath, open_path};
use super::spec::{BindMount, ContainerSpec};
use super::sys::{MountAccess, bind_mount, make_read_only};

/// Host paths that an image of the host's distribution would hold. `/etc/ssl/private` and the like stay out.
const IMAGE: [&str; 17] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/protocols",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
];
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
const DEVICE_LINKS: [(&str, &str); 5] = [
    ("ptmx", "pts/ptmx"),
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
];
/// Parts of `/proc` through which even a process without capabilities may change the host when its
/// uid is the host's root.
const PROC_READ_ONLY: [&str; 6] = ["sys", "sysrq-trigger", "irq", "bus", "fs", "acpi"];
/// Parts of `/proc` that tell about the host.
const PROC_HIDDEN: [&str; 5] = ["kcore", "keys", "kmsg", "timer_list", "sched_debug"];
const ROOT_SIZE: &str = "mode=0755,size=4g";

/// Builds the root and moves into it. The caller is the first process of new mount and pid
/// namespaces, with the pod's user namespace around it.
pub(super) fn enter_root(spec: &ContainerSpec) -> io::Result<()> {
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some("tmpfs"), &spec.root, Some("tmpfs"), flags, Some(ROOT_SIZE))?;
    let root = error_at("container root", open_path(&spec.root))?;

    let holes: Vec<&str> =
        spec.image.iter().chain(&spec.mounts).map(|bind| bind.target.as_str()).collect();
    for path in IMAGE {
        error_at(path, expose_path(&root, Path::new(path), &holes))?;
    }
    for path in ["tmp", "var/tmp"] {
        let folder = make_folder(&root, path)?;
        nix::sys::stat::fchmodat(
            &folder,
            ".",
            Mode::from_bits_truncate(0o1777),
            nix::sys::stat::FchmodatFlags::FollowSymlink,
        )?;
    }
    error_at("/etc", write_etc(&root, &spec.etc))?;
    error_at("/dev", make_dev(&root))?;
    error_at("/proc", make_proc(&root))?;
    for bind in in_order(spec) {
        error_at(&bind.target, attach_bind(&root, bind))?;
    }
    error_at(
        "workingDir",
        make_folder(&root, &spec.process.cwd).or_else(|error| {
            // Exists already, behind a link of the image or on a read-only volume.
            open_beneath(&root, spec.process.cwd.trim_start_matches('/')).map_err(|_| error)
        }),
    )?;
    if spec.read_only_root {
        make_read_only(&root)?;
    }
    fchdir(&root)?;
    pivot_root(".", ".")?;
    umount2(".", MntFlags::MNT_DETACH)?;
    nix::unistd::chdir("/")?;
    Ok(())
}

/// Parents before children, the image before volumes.
fn in_order(spec: &ContainerSpec) -> Vec<&BindMount> {
    let mut binds: Vec<&BindMount> = spec.image.iter().collect();
    let mut mounts: Vec<&BindMount> = spec.mounts.iter().collect();
    mounts.sort_by_key(|bind| bind.target.split('/').count());
    binds.extend(mounts);
    binds
}

fn attach_bind(root: &OwnedFd, spec: &BindMount) -> io::Result<()> {
    let base = open_path(&spec.source)?;
    let source = match &spec.sub_path {
        None => base,
        Some(path) => match open_beneath(&base, path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => make_folder(&base, path)?,
            other => other?,
        },
    };
    let target = if is_folder(&source)? {
        make_folder(root, &spec.target)?
    } else {
        make_file(root, &spec.target)?
    };
    let access = if spec.read_only { MountAccess::ReadOnly } else { MountAccess::ReadWrite };
    bind_mount(&source, &target, access)
}

/// Shows a path of the host, read-only. Where something of the pod has to be mounted below a
/// folder that lacks its mount point, the folder is rebuilt from its entries.
fn expose_path(root: &OwnedFd, path: &Path, holes: &[&str]) -> io::Result<()> {
    let Ok(metadata) = path.symlink_metadata() else { return Ok(()) };
    let inside = path.to_string_lossy();
    if metadata.is_symlink() {
        let (parent, name) = (path.parent().unwrap_or(path), path.file_name().unwrap_or_default());
        let parent = make_folder(root, &parent.to_string_lossy())?;
        return match symlinkat(&std::fs::read_link(path)?, &parent, name) {
            Ok(()) | Err(Errno::EEXIST) => Ok(()),
            Err(error) => Err(error.into()),
        };
    }
    if !metadata.is_dir() {
        return bind_mount(open_path(path)?, make_file(root, &inside)?, MountAccess::ReadOnly);
    }
    let needs_hole = holes.iter().any(|hole| {
        let hole = Path::new(hole);
        hole.starts_with(path) && hole != path && !hole.exists()
    });
    let target = make_folder(root, &inside)?;
    if !needs_hole {
        return bind_mount(open_path(path)?, target, MountAccess::ReadOnly);
    }
    for entry in std::fs::read_dir(path)? {
        expose_path(root, &entry?.path(), holes)?;
    }
    Ok(())
}

fn write_etc(root: &OwnedFd, files: &[(String, String)]) -> io::Result<()> {
    let etc = make_folder(root, "etc")?;
    for (name, content) in files {
        let flags = OFlag::O_CREAT | OFlag::O_TRUNC | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
        let file = openat(&etc, name.as_str(), flags, Mode::from_bits_truncate(0o644))?;
        io::Write::write_all(&mut std::fs::File::from(file), content.as_bytes())?;
    }
    Ok(())
}

fn make_dev(root: &OwnedFd) -> io::Result<()> {
    let dev = make_folder(root, "dev")?;
    for name in DEVICES {
        bind_mount(
            open_path(&PathBuf::from("/dev").join(name))?,
            make_file(&dev, name)?,
            MountAccess::ReadWrite,
        )?;
    }
    for (name, target) in DEVICE_LINKS {
        symlinkat(target, &dev, name)?;
    }
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    let options = "newinstance,ptmxmode=0666,mode=0620";
    mount_on(&make_folder(&dev, "pts")?, "devpts", flags, options)?;
    mount_on(&make_folder(&dev, "shm")?, "tmpfs", flags | MsFlags::MS_NODEV, "mode=1777,size=64m")
}

fn make_proc(root: &OwnedFd) -> io::Result<()> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount_on(&make_folder(root, "proc")?, "proc", flags, "")?;
    let limits = open_beneath(root, "proc/sys/user")?;
    for name in PROC_READ_ONLY {
        if let Ok(part) = open_beneath(root, &format!("proc/{name}")) {
            bind_mount(&part, &part, MountAccess::ReadOnly)?;
        }
    }
    // Needs a capability in any case, and the container's own limits are still to be set in it.
    bind_mount(&limits, open_beneath(root, "proc/sys/user")?, MountAccess::ReadWrite)?;
    for name in PROC_HIDDEN {
        if let Ok(part) = open_beneath(root, &format!("proc/{name}")) {
            bind_mount(open_path(Path::new("/dev/null"))?, &part, MountAccess::ReadOnly)?;
        }
    }
    Ok(())
}

fn mount_on(target: &OwnedFd, kind: &str, flags: MsFlags, options: &str) -> io::Result<()> {
    let target = format!("/proc/self/fd/{}", target.as_raw_fd());
    Ok(mount(Some(kind), target.as_str(), Some(kind), flags, Some(options))?)
}

fn is_folder(file: impl AsFd) -> io::Result<bool> {
    let kind = nix::sys::stat::fstat(file)?.st_mode & nix::libc::S_IFMT;
    Ok(kind == nix::libc::S_IFDIR)
}

fn error_at<T>(what: &str, result: io::Result<T>) -> io::Result<T> {
    result.map_err(|error| io::Error::new(error.kind(), format!("{what}: {error}")))
}
