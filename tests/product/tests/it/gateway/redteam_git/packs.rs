//! Packs that no Git would make: giants, loops and tricks, sent as they are.

use super::Attack;

fn tree_entry(mode: &str, name: &str, id: &str) -> Vec<u8> {
    let mut entry = format!("{mode} {name}\0").into_bytes();
    entry.extend(hex::decode(id).unwrap());
    entry
}

#[tokio::test]
async fn a_small_pack_that_unfolds_to_a_giant_is_refused() {
    let attack = Attack::start().await;
    attack.write("zeros.bin", vec![0_u8; 300 << 20]);
    attack.commit("Add").await;
    attack.is_refused(&["file too large: zeros.bin"]).await;
}

#[tokio::test]
async fn a_tree_that_unfolds_without_end_is_refused() {
    let attack = Attack::start().await;
    let mut id = attack.object("blob", b"x\n").await;
    let mut mode = "100644";
    for _ in 0..12 {
        let tree: Vec<u8> = (0..10).flat_map(|n| tree_entry(mode, &format!("f{n}"), &id)).collect();
        id = attack.object("tree", &tree).await;
        mode = "40000";
    }
    let commit = attack.commit_of(&id).await;
    attack.git(&["update-ref", "HEAD", &commit]).await;
    attack.is_refused(&["more files than can be looked at"]).await;
}

#[tokio::test]
async fn trees_that_trick_a_checkout_are_refused() {
    let attack = Attack::start().await;
    let blob = attack.object("blob", b"[core]\n\tfsmonitor = evil\n").await;
    let modules = b"[submodule \"a\"]\n\tpath = a\n\turl = --upload-pack=evil\n";
    let modules = attack.object("blob", modules).await;
    for entry in [
        tree_entry("100644", ".git", &blob),
        tree_entry("100644", ".GIT", &blob),
        tree_entry("100644", "..", &blob),
        tree_entry("100644", "a/b", &blob),
        tree_entry("120000", ".gitmodules", &blob),
        tree_entry("100644", ".gitmodules", &modules),
        [tree_entry("100644", "a", &blob), tree_entry("100644", "a", &blob)].concat(),
    ] {
        let tree = attack.object("tree", &entry).await;
        let commit = attack.commit_of(&tree).await;
        let pack = attack.pack(&[&commit, &tree, &blob, &modules]).await;
        let said = attack.sends(&commit, &pack).await;
        assert!(said.contains("Git does not accept the pack"), "{said}");
    }
}

#[tokio::test]
async fn a_pack_that_is_none_or_lacks_something_is_refused() {
    let attack = Attack::start().await;
    attack.write("b.txt", "b\n");
    attack.commit("Add b").await;
    let commit = attack.git(&["rev-parse", "HEAD"]).await;
    let tree = attack.git(&["rev-parse", "HEAD^{tree}"]).await;
    let pack = attack.pack(&[&commit, &tree]).await;
    let mut flipped = pack.clone();
    flipped[20] ^= 0x40;
    let mut boastful = pack.clone();
    boastful[8..12].copy_from_slice(&u32::MAX.to_be_bytes());
    for bad in
        [&pack[..], &pack[..pack.len() - 8], &flipped, &boastful, b"PACK", b"nonsense, really"]
    {
        attack.sends_nothing(&commit, bad).await;
    }
    // No commit at all.
    let said = attack.sends(&tree, &pack).await;
    assert!(!said.contains("unpack error"), "{said}");
}

impl Attack {
    /// However it is answered, nothing moves.
    async fn sends_nothing(&self, new: &str, pack: &[u8]) {
        let old = &self.before[&self.world.branch];
        let line = format!("{old} {new} refs/heads/{}\0report-status", self.world.branch);
        let (status, answer) = self.world.raw_push("coder", &line, pack).await;
        assert!(status != 200 || answer.contains("ng refs/heads/"), "{status} {answer}");
        assert_eq!(self.world.remote.branches().await.unwrap(), self.before);
    }
}

/// Resident memory of the gateway's `git index-pack` for pushes, at its highest, in KiB.
fn peak_of_unpacking() -> u64 {
    let processes = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let command = std::fs::read_to_string(entry.path().join("cmdline")).ok()?;
        if !command.contains("index-pack") || !command.contains("--strict") {
            return None;
        }
        let status = std::fs::read_to_string(entry.path().join("status")).ok()?;
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        peak.trim_end_matches("kB").trim().parse::<u64>().ok()
    });
    processes.sum()
}

#[tokio::test]
async fn small_packs_that_need_giant_memory_are_refused_in_sum() {
    let attack = Attack::start().await;
    // A quarter of a gigabyte of nothing, and a difference to it: some 255 KB as a pack.
    for (byte, message) in [(0, "Add"), (1, "Change")] {
        let mut content = vec![0; 250 << 20];
        content[125 << 20] = byte;
        attack.write("big.bin", content);
        attack.commit(message).await;
    }
    let new = attack.git(&["rev-parse", "HEAD"]).await;
    let objects = attack.git(&["rev-list", "--objects", "--no-object-names", "HEAD~2..HEAD"]).await;
    let pack = attack.pack(&objects.lines().collect::<Vec<_>>()).await;
    assert!(pack.len() < 1 << 20, "{} bytes", pack.len());
    let mut peak = 0;
    let three = futures::future::join3(
        attack.sends(&new, &pack),
        attack.sends(&new, &pack),
        attack.sends(&new, &pack),
    );
    let mut three = std::pin::pin!(three);
    let answers = loop {
        tokio::select! {
            answers = &mut three => break answers,
            () = tokio::time::sleep(std::time::Duration::from_millis(2)) => {
                peak = peak.max(peak_of_unpacking());
            }
        }
    };
    for answer in [answers.0, answers.1, answers.2] {
        // On a busy machine the time for a pack may be over before the memory for it is.
        let is_refused = answer.contains("Git does not accept the pack")
            || answer.contains("ng refs/heads/") && answer.contains("the push failed");
        assert!(is_refused, "{answer}");
    }
    assert!(peak < 256 << 10, "{peak} KiB");
}
