use super::*;
use crate::draft::{DraftItem, fresh_id};
use crate::edit::{EditError, add_items, set_field};

const SHOP: &str = "# Roadmap: shop\n\nWhat we want this year.\n\n## 1. Auth system\n- Status: done\n\
    - Branch: codebutler/auth-system\n- PR: #12\n- Depends on: —\n- Acceptance criteria: JWT, login\n\n\
    ## 2. User profile API\n- Status: in_progress\n- Depends on: 1\n- Acceptance criteria:\n  - CRUD endpoints\n\
    \x20 - avatar upload\n\nAna knows the old one.\n\n### Hints\n- like this: that\n\n```\n## 9. no item\n```\n\n\
    ## k7f2mq. Profile UI\n- **Status**: pending\n- **Depends on:** 1, 2\n- **Acceptance criteria:** Profile page\n";

fn faults(text: &str) -> Vec<String> {
    RoadmapFile::read(text).faults.iter().map(ToString::to_string).collect()
}

fn item(id: &str, depends: &str) -> String {
    format!("## {id}. T\n- Depends on: {depends}\n- Acceptance criteria: works\n\n")
}

#[test]
fn items_are_read_with_everything_that_people_wrote() {
    let roadmap = RoadmapFile::read(SHOP);
    assert_eq!(roadmap.faults, []);
    assert_eq!(roadmap.title, "Roadmap: shop");
    let [auth, api, ui] = roadmap.items.as_slice() else { panic!("{:?}", roadmap.items) };
    assert_eq!((auth.status, auth.pull_request, auth.line), (ItemStatus::Done, Some(12), 5));
    assert_eq!(auth.branch.as_deref(), Some("codebutler/auth-system"));
    assert_eq!(api.criteria, "- CRUD endpoints\n- avatar upload");
    assert_eq!(
        api.notes,
        "Ana knows the old one.\n\n### Hints\n- like this: that\n\n```\n## 9. no item\n```"
    );
    assert_eq!((ui.id.as_str(), ui.depends_on.join(" ").as_str()), ("k7f2mq", "1 2"));
    assert_eq!(ui.status, ItemStatus::Pending);
    assert!(roadmap.items.iter().all(|item| item.is_sound));
}

#[test]
fn windows_lines_mean_the_same() {
    let windows = RoadmapFile::read(&SHOP.replace('\n', "\r\n"));
    assert_eq!(windows, RoadmapFile::read(SHOP));
}

#[test]
fn each_mistake_is_a_sentence_with_its_line_and_spoils_one_item() {
    for (wrong, line, says) in [
        (
            "## 5. T\n- Status: finished\n- Acceptance criteria: x\n",
            2,
            "`finished` is no status: there are pending,",
        ),
        ("## 5. T\n- Staus: done\n- Acceptance criteria: x\n", 2, "`Staus` is no field"),
        ("## 5. T\n- Status: done\n- Status: done\n", 3, "twice"),
        ("## 5. T\n- Status: pending\n", 1, "no `Acceptance criteria`"),
        (
            "## 5. T\n- Depends on: 9\n- Acceptance criteria: x\n",
            1,
            "depends on 9, which is not in the file",
        ),
        ("## 5. T\n- Depends on: 5\n- Acceptance criteria: x\n", 1, "item 5 depends on itself"),
        (
            "## 5. T\n- Depends on: the first\n- Acceptance criteria: x\n",
            2,
            "`the first` is no item's id",
        ),
        ("## 5. T\n- PR: soon\n- Acceptance criteria: x\n", 2, "`PR: soon` is no number"),
        ("## 5. T\n- Status: pending\n  and more\n- Acceptance criteria: x\n", 3, "one line"),
        ("## 5. T\n- Acceptance criteria: x\n\nText.\n- Status: done\n", 5, "move it up"),
        ("## 5. T\n- Acceptance criteria: a\u{202e}b\n", 2, "can't be seen"),
        ("## Ideas\n- Acceptance criteria: x\n", 1, "`## Ideas` is no item"),
        ("## 5.\n- Acceptance criteria: x\n", 1, "no title"),
    ] {
        let text = format!("{wrong}\n{}", item("1", "—"));
        let roadmap = RoadmapFile::read(&text);
        let [fault] = roadmap.faults.as_slice() else { panic!("{wrong}: {:?}", roadmap.faults) };
        assert_eq!(fault.line, line, "{wrong}");
        assert!(fault.message.contains(says), "{fault}");
        let sound: Vec<_> = roadmap.items.iter().map(|item| item.is_sound).collect();
        assert_eq!(sound, [false, true], "{wrong}");
    }
}

#[test]
fn a_circle_is_told_once_and_what_is_outside_of_it_goes_on() {
    let text =
        [item("1", "3"), item("2", "1"), item("3", "2"), item("4", "1"), item("5", "—")].concat();
    let roadmap = RoadmapFile::read(&text);
    assert_eq!(
        faults(&text),
        ["line 1: items 1 → 3 → 2 → 1 wait for each other in a circle: take one dependency out"]
    );
    let sound: Vec<_> = roadmap.items.iter().map(|item| item.is_sound).collect();
    assert_eq!(sound, [false, false, false, true, true]);
    let order: Vec<_> = roadmap.order().iter().map(|item| item.id.clone()).collect();
    assert_eq!(order, ["5"]);
}

#[test]
fn twins_are_nobody() {
    let text = [item("1", "—"), item("1", "—"), item("2", "—")].concat();
    assert_eq!(
        faults(&text),
        ["line 5: item 1 stands in line 1 already: give this one another id"]
    );
    assert_eq!(RoadmapFile::read(&text).item("1"), None);
    assert!(RoadmapFile::read(&text).item("2").is_some_and(|item| item.is_sound));
    assert!(RoadmapFile::read(&text).items.iter().take(2).all(|item| !item.is_sound));
}

#[test]
fn ready_is_what_waits_for_nothing_that_is_not_done() {
    let roadmap = RoadmapFile::read(SHOP);
    let ui = roadmap.item("k7f2mq").unwrap();
    assert_eq!(roadmap.waits_for(ui, |id| id == "1"), ["2"]);
    assert!(roadmap.waits_for(ui, |_| true).is_empty());
    let order: Vec<_> = roadmap.order().iter().map(|item| item.id.as_str()).collect();
    assert_eq!(order, ["1", "2", "k7f2mq"]);
}

#[test]
fn the_hash_is_of_what_is_to_be_built() {
    let of = |text: &str| RoadmapFile::read(text).items[0].hash();
    let base = "## 1. T\n- Status: pending\n- Acceptance criteria: a b\n\nNote.\n";
    assert_eq!(
        of(base),
        of("## 1. T\n- Status: blocked\n- Reason: r\n- Acceptance criteria:\n  a\n  b\n\n\nNote.")
    );
    for other in [
        "## 1. T\n- Acceptance criteria: a c\n\nNote.\n",
        "## 1. U\n- Acceptance criteria: a b\n\nNote.\n",
        "## 1. T\n- Acceptance criteria: a b\n\nNote and more.\n",
        "## 2. T\n- Acceptance criteria: a b\n\nNote.\n",
    ] {
        assert_ne!(of(base), of(other), "{other}");
    }
}

#[test]
fn an_edit_changes_its_line_alone() {
    for text in [SHOP.to_owned(), SHOP.replace('\n', "\r\n")] {
        let edited = set_field(&text, "k7f2mq", ItemField::Status, "done").unwrap();
        let differs: Vec<_> = text.lines().zip(edited.lines()).filter(|(a, b)| a != b).collect();
        assert_eq!(differs, [("- **Status**: pending", "- **Status**: done")]);
        assert_eq!(edited.len() + 3, text.len());
        let edited = set_field(&edited, "k7f2mq", ItemField::Branch, "codebutler/x").unwrap();
        assert_eq!(
            RoadmapFile::read(&edited).item("k7f2mq").unwrap().branch.as_deref(),
            Some("codebutler/x")
        );
        assert_eq!(edited.lines().count(), text.lines().count() + 1);
        assert_eq!(edited.contains("\r\n"), text.contains("\r\n"));
        assert_eq!(edited.matches('\r').count(), edited.matches("\r\n").count());
        let edited = set_field(&edited, "2", ItemField::Criteria, "one\nline").unwrap();
        assert_eq!(RoadmapFile::read(&edited).item("2").unwrap().criteria, "one line");
        assert!(edited.contains("Ana knows the old one."));
        assert_eq!(
            set_field(&edited, "k7f2mq", ItemField::Branch, "codebutler/x").unwrap(),
            edited,
            "twice is once"
        );
    }
    let bare = set_field("## 1. T", "1", ItemField::Status, "done").unwrap();
    assert_eq!(bare, "## 1. T\n- Status: done\n");
    let twins = [item("1", "—"), item("1", "—")].concat();
    for (text, id) in [(SHOP, "9"), (twins.as_str(), "1"), ("", "1")] {
        let refused = set_field(text, id, ItemField::Status, "done");
        assert_eq!(refused, Err(EditError::NoItem(id.to_owned())));
    }
}

#[test]
fn items_are_added_behind_what_is_there() {
    let draft = |id: &str, depends: &[&str]| DraftItem {
        id: id.to_owned(),
        title: "Search\nbox".to_owned(),
        depends_on: depends.iter().map(|id| (*id).to_owned()).collect(),
        criteria: vec!["finds shoes".to_owned(), "in 50 ms".to_owned()],
        notes: "## 3. Not an item\n- Status: done".to_owned(),
    };
    let added = add_items(SHOP, &[draft("aa2", &["1"]), draft("bb2", &["aa2"])]);
    // Fields among the notes would be read as fields.
    assert!(matches!(added, Err(EditError::Refused(why)) if why.contains("move it up")));
    let draft = |id: &str, depends: &[&str]| DraftItem {
        notes: "## Why\nAsked for.".to_owned(),
        ..draft(id, depends)
    };
    let added = add_items(SHOP, &[draft("aa2", &["1"]), draft("bb2", &["aa2"])]).unwrap();
    assert!(added.starts_with(SHOP.trim_end()));
    let roadmap = RoadmapFile::read(&added);
    assert_eq!((roadmap.faults.len(), roadmap.items.len()), (0, 5));
    assert_eq!(roadmap.item("bb2").unwrap().notes, "### Why\nAsked for.");
    assert_eq!(roadmap.item("bb2").unwrap().title, "Search box");
    for wrong in [draft("aa2", &["77"]), draft("1", &[]), draft("A", &[]), draft("cc2", &["cc2"])] {
        assert!(add_items(SHOP, std::slice::from_ref(&wrong)).is_err(), "{wrong:?}");
    }
    assert_eq!(RoadmapFile::read(&add_items("", &[draft("aa2", &[])]).unwrap()).items.len(), 1);
    // Faults that people made before keep nobody from adding.
    let spoilt = format!("{SHOP}\n## 8. T\n- Status: soon\n");
    assert!(add_items(&spoilt, &[draft("aa2", &[])]).is_ok());
}

#[test]
fn a_thousand_ids_that_are_drawn_at_once_differ() {
    // A generator that anybody can repeat, so that the test can't fail by chance.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut ids = std::collections::HashSet::new();
    for _ in 0..1000 {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let id = fresh_id(state ^ (state >> 29));
        assert!(is_item_id(&id) && id.starts_with(char::is_alphabetic), "{id}");
        ids.insert(id);
    }
    assert_eq!(ids.len(), 1000);
}

#[test]
fn hostile_files_are_read_in_one_pass() {
    let chain: String =
        (0..MAX_ITEMS).map(|n| item(&n.to_string(), &format!("{}", (n + 1) % MAX_ITEMS))).collect();
    let all = RoadmapFile::read(&chain);
    assert_eq!((all.items.len(), all.faults.len()), (MAX_ITEMS, 1));
    let many: String = (0..MAX_ITEMS + 20).map(|n| item(&n.to_string(), "—")).collect();
    let roadmap = RoadmapFile::read(&many);
    assert_eq!(roadmap.items.len(), MAX_ITEMS);
    assert!(roadmap.faults[0].message.contains("more than 500 items"), "{:?}", roadmap.faults);
    assert!(RoadmapFile::read(&"x".repeat(MAX_FILE + 1)).faults[0].message.contains("256 KiB"));
    let wrong = "## 1. T\n".repeat(400);
    assert_eq!(RoadmapFile::read(&wrong).faults.len(), MAX_FAULTS + 1);
    for text in [
        "",
        "\n\n",
        "- Status: done",
        "##",
        "## ",
        "## .",
        "## 1",
        "```",
        "```\n## 1. T",
        "\u{0}",
        "## 1. \u{feff}",
    ] {
        let _ = RoadmapFile::read(text);
        let _ = set_field(text, "1", ItemField::Status, "done");
    }
    let deep = format!("## 1. T\n- Acceptance criteria: {}\n", "x".repeat(MAX_WORDS + 1));
    assert!(faults(&deep)[0].contains("too much"));
}
