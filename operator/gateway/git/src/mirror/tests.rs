use super::*;

fn refs(list: &[(&str, &str)]) -> RemoteRefs {
    list.iter().map(|(name, id)| ((*name).to_owned(), (*id).to_owned())).collect()
}

#[test]
fn only_differences_are_written() {
    let ours = refs(&[("refs/heads/a", "1"), ("refs/heads/b", "2"), ("refs/heads/c", "3")]);
    let theirs = refs(&[("refs/heads/a/x", "1"), ("refs/heads/b", "4"), ("refs/heads/c", "3")]);
    assert_eq!(ref_deletions(&ours, &theirs), "delete refs/heads/a\n");
    assert_eq!(ref_moves(&ours, &theirs), "update refs/heads/a/x 1\nupdate refs/heads/b 4\n");
    assert_eq!(known_refs(&ours, "b"), ["2", "1", "3"]);
    assert_eq!(known_refs(&ours, "nothing"), ["1", "2", "3"]);
}

#[test]
fn a_copy_whose_commands_are_stopped_is_kept_and_a_damaged_one_is_not() {
    let mirror = RepoMirror::new(PathBuf::from("/nonexistent/copy.git"));
    let failed =
        |code| CommandError::Failed { command: "fsck".to_owned(), code, said: String::new() };
    let late = || CommandError::TooLong("fsck".to_owned());
    assert!(!mirror.is_lost_after(&late()), "a busy machine says nothing about the copy");
    assert!(mirror.is_lost_after(&failed(128)));
    assert!(!mirror.is_lost_after(&failed(-1)), "killed");
    assert!(mirror.is_lost_after(&late()), "its check never ends in time: a clone needs none");
    for _ in 0..2 * MAX_STOPPED {
        let refused = std::io::Error::from(std::io::ErrorKind::WouldBlock);
        assert!(!mirror.is_lost_after(&refused.into()), "no process could be started");
    }
    assert!(!mirror.is_lost_after(&late()), "nor did they count");
}

#[tokio::test]
async fn only_a_copy_is_one_that_is_under_way() {
    let mirror = RepoMirror::new(PathBuf::from("/nonexistent/copy.git"));
    let looks = mirror.last.lock().await;
    assert!(!mirror.is_copying(), "somebody asks whether it is ready");
    let copying = mirror.copying.set();
    assert!(mirror.is_copying());
    drop((copying, looks));
    assert!(!mirror.is_copying());
}

#[tokio::test]
async fn locks_of_a_killed_command_do_not_cost_the_copy() {
    let shop = crate::testing::TestRepository::new();
    let first = shop.commit(&[], &[("a", "1")]);
    let dir = shop.git().dir().to_owned();
    for lock in ["HEAD.lock", "packed-refs.lock", "refs/heads/main.lock"] {
        std::fs::write(dir.join(lock), "").unwrap();
    }
    let mirror = RepoMirror::new(dir);
    mirror.prepare("main").await.unwrap();
    let update = format!("update refs/heads/main {first}\n");
    mirror.git.run(&["update-ref", "--stdin"], update.as_bytes()).await.unwrap();
    mirror.git.run(&["pack-refs", "--all"], b"").await.unwrap();
    assert_eq!(mirror.list_refs().await.unwrap(), refs(&[("refs/heads/main", first.as_str())]));
}

#[tokio::test]
async fn faults_in_old_commits_do_not_cost_the_copy_and_damage_does() {
    let shop = crate::testing::TestRepository::new();
    let first = shop.commit(&[], &[("a", "1")]);
    let tree = shop.run(&["rev-parse", &format!("{first}^{{tree}}")], "");
    let old = format!(
        "tree {tree}\nparent {first}\nauthor A<a@example.com> 1 +0000\ncommitter A <a@example.com> 1 +051800\n\nOld\n"
    );
    let made = ["hash-object", "-t", "commit", "-w", "--literally", "--stdin"];
    let tip = shop.run(&made, &old);
    shop.run(&["update-ref", "refs/heads/main", &tip], "");
    let dir = shop.git().dir().to_owned();
    RepoMirror::new(dir.clone()).prepare("main").await.unwrap();
    let blob = shop.run(&["rev-parse", &format!("{first}:a")], "");
    let (folder, file) = blob.split_at(2);
    std::fs::remove_file(dir.join("objects").join(folder).join(file)).unwrap();
    assert!(RepoMirror::new(dir).prepare("main").await.is_err(), "an object is missing");
}

#[tokio::test]
async fn an_update_that_does_not_end_holds_nobody_for_ever() {
    let mirror = RepoMirror::new(PathBuf::from("/nonexistent/copy.git"));
    let hanging = mirror.last.lock().await;
    let late = mirror.lock_last(Duration::from_millis(10)).await.unwrap_err();
    assert!(late.to_string().contains("still copying"), "{late}");
    drop(hanging);
    assert!(mirror.lock_last(LOCK_LIMIT).await.is_ok());
}

#[tokio::test]
async fn a_pack_is_received_for_as_long_as_it_takes_and_indexed_within_a_limit() {
    let limit = Duration::from_millis(10);
    let (received, indexed) =
        copying::join_within(async { 1 }, std::future::pending::<()>(), limit).await;
    assert_eq!((received, indexed.is_err()), (1, true));
    // While it is received no time counts.
    let (end, ending) = tokio::sync::oneshot::channel();
    let receive = async {
        tokio::time::sleep(limit * 3).await;
        end.send(2).unwrap();
    };
    let ((), indexed) = copying::join_within(receive, ending, limit).await;
    assert_eq!(indexed.unwrap(), Ok(2));
}
