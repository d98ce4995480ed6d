use std::os::unix::fs::symlink;

use super::*;

/// An image's folders, and a thread's build folder.
struct Image {
    dir: tempfile::TempDir,
    folders: ImageFolders,
}

impl Image {
    fn with(files: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let path = dir.path().join("image").join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file).unwrap();
        }
        fs::create_dir_all(dir.path().join("build")).unwrap();
        let of = |name: &str| Some(dir.path().join("image").join(name));
        let (cargo, modules, rustup) = (of("cargo"), of("go/pkg/mod"), of("rustup"));
        Self { folders: ImageFolders { cargo, modules, rustup }, dir }
    }

    fn build(&self, path: &str) -> PathBuf {
        self.dir.path().join("build").join(path)
    }

    fn image(&self, path: &str) -> PathBuf {
        self.dir.path().join("image").join(path)
    }

    fn link(&self) {
        self.folders.copy_settings(&self.build("")).unwrap();
        self.folders.link_downloads(&self.build("")).unwrap();
    }
}

fn is_link(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|meta| meta.is_symlink())
}

const CRATE: &str = "cargo/registry/cache/i/a-1.0.0.crate";

#[test]
fn crates_are_links_and_settings_are_copied_once() {
    let image = Image::with(&[
        CRATE,
        "cargo/config.toml",
        "cargo/registry/index/i/.cache/a",
        "cargo/registry/src/i/a/lib.rs",
        "cargo/bin/cargo",
    ]);
    symlink("/etc/passwd", image.image("cargo/registry/cache/i/link")).unwrap();
    image.link();
    assert_eq!(fs::read_to_string(image.build(CRATE)).unwrap(), CRATE);
    assert!(is_link(&image.build(CRATE)) && !is_link(&image.build("cargo/config.toml")));
    // Cargo writes to it.
    assert!(!is_link(&image.build("cargo/registry/index/i/.cache/a")));
    for other in ["cargo/bin", "cargo/registry/src", "cargo/registry/cache/i/link"] {
        assert!(image.build(other).symlink_metadata().is_err(), "{other}");
    }
    fs::write(image.build("cargo/config.toml"), "own").unwrap();
    fs::remove_file(image.build(CRATE)).unwrap();
    fs::write(image.build(CRATE), "downloaded").unwrap();
    image.link();
    assert_eq!(fs::read_to_string(image.build("cargo/config.toml")).unwrap(), "own");
    assert_eq!(fs::read_to_string(image.build(CRATE)).unwrap(), "downloaded");
}

#[test]
fn links_into_an_image_that_is_no_more_are_in_nobodys_way() {
    let objects = "cargo/git/db/r/objects";
    let pack = format!("{objects}/pack/p.pack");
    let image = Image::with(&[CRATE, &pack, "cargo/git/db/r/HEAD"]);
    fs::create_dir_all(image.build("cargo/registry/cache/i")).unwrap();
    symlink("/nowhere", image.build(CRATE)).unwrap();
    let alternates = image.build(objects).join("info/alternates");
    fs::create_dir_all(alternates.parent().unwrap()).unwrap();
    fs::write(&alternates, "/nowhere\n").unwrap();
    image.link();
    assert_eq!(fs::read_to_string(image.build(CRATE)).unwrap(), CRATE);
    let read = fs::read_to_string(&alternates).unwrap();
    assert_eq!(Path::new(read.trim_end()), image.image(objects), "they are read where they are");
    assert!(!image.build(&pack).exists() && image.build("cargo/git/db/r/HEAD").exists());
    assert!(!is_link(&image.build("cargo/git/db/r/HEAD")), "Git writes to it");
    assert_eq!(fs::read_dir(image.build("cargo/git/db")).unwrap().count(), 1);
    // Files that Cargo has fetched since are kept.
    fs::write(image.build(&pack), "fetched").unwrap();
    image.link();
    assert_eq!(fs::read_to_string(image.build(&pack)).unwrap(), "fetched");
}

#[test]
fn go_takes_versions_from_the_image_and_no_list_of_them() {
    let at = "go/pkg/mod/cache/download/example.org/m/@v";
    let files = ["v1.0.0.zip", "v1.0.0.info", "v1.0.0.mod", "v1.0.0.lock", "list"];
    let files = files.map(|file| format!("{at}/{file}"));
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let image = Image::with(&files);
    image.link();
    let there = |name: &str| image.build(at).join(name).symlink_metadata().is_ok();
    assert!(there("v1.0.0.zip") && there("v1.0.0.info") && there("v1.0.0.mod"));
    assert!(!there("list"), "its newest version would be taken for the newest");
    assert!(!there("v1.0.0.lock"), "Go writes to it");
}

#[test]
fn what_a_command_put_in_a_folders_place_is_not_written_to() {
    let image = Image::with(&[CRATE]);
    let outside = image.dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::create_dir(image.build("cargo")).unwrap();
    symlink(&outside, image.build("cargo/registry")).unwrap();
    image.folders.link_downloads(&image.build("")).unwrap_err();
    assert_eq!(fs::read_dir(outside).unwrap().count(), 0);
}

#[test]
fn toolchains_can_be_added_to_those_of_the_image() {
    let rustc = "rustup/toolchains/1.90.0/bin/rustc";
    let image = Image::with(&[rustc, "rustup/settings.toml"]);
    let home = image.folders.link_toolchains(&image.build("")).unwrap().unwrap();
    assert_eq!(fs::read_to_string(home.join("toolchains/1.90.0/bin/rustc")).unwrap(), rustc);
    assert_eq!(fs::read_to_string(home.join("settings.toml")).unwrap(), "rustup/settings.toml");
    fs::create_dir(home.join("toolchains/1.91.0")).unwrap();
    assert_eq!(image.folders.link_toolchains(&image.build("")).unwrap(), Some(home.clone()));
    // A newer image has another default.
    fs::write(image.image("rustup/settings.toml"), "newer").unwrap();
    assert_ne!(image.folders.link_toolchains(&image.build("")).unwrap(), Some(home));
}

#[tokio::test]
async fn what_could_not_be_linked_is_told_to_the_role_once() {
    let image = Image::with(&[CRATE]);
    fs::create_dir(image.build("cargo")).unwrap();
    // Stands for a volume that is full.
    fs::write(image.build("cargo/registry"), "").unwrap();
    let downloads = ImageDownloads::default();
    downloads.begin(&image.folders, &image.build(""));
    let told = downloads.ready().await.unwrap();
    assert!(told.contains("Not all crates") && told.contains("os error"), "{told}");
    assert_eq!(downloads.ready().await, None);
    let full = LinkBudget { files: 0, bytes: 1 }.spend(0).unwrap_err();
    assert!(full.to_string().contains("more than"), "{full}");
}
