use std::collections::BTreeMap;

use super::*;

/// A roadmap of so many items, each with criteria and notes of its own.
fn roadmap(count: usize) -> RoadmapFile {
    let items = (1..=count).map(|n| {
        let title = format!("Item {n} {}", "t".repeat(90));
        format!("## {n}. {title}\n- Acceptance criteria: criterion {n}\n\norder {n}\n\n")
    });
    RoadmapFile::read(&items.collect::<String>())
}

fn asked(file: &RoadmapFile, whole: Option<&str>) -> ItemsQuestion {
    let run = RoadmapRun::wanted("1.000000".parse().unwrap(), "U1", None);
    let children = BTreeMap::new();
    let facts = RoadmapFacts {
        run: &run,
        file: Some(file),
        children: &children,
        places: 2,
        budget: None,
        cost: NanoUsd::ZERO,
        spent: NanoUsd::ZERO,
        is_settling: false,
        elsewhere: None,
    };
    let items = file.items.iter().map(|item| ApprovedItem {
        id: item.id.clone(),
        hash: item.hash(),
        tries: 0,
        failed: None,
    });
    let items: Vec<ApprovedItem> = items.collect();
    roadmap_question(&facts, &items, "main", &LimitsSpec::default(), whole)
}

#[test]
fn a_question_records_what_it_names_and_attaches_the_whole() {
    for (count, named) in [(1, 1), (3, 3), (200, 20)] {
        let file = roadmap(count);
        let items = &file.items;
        assert_eq!(items.len(), count);
        let all: Vec<ApprovedItem> = asked(&file, Some("roadmap-1.md")).items;
        let ItemsQuestion { text, items, more } = asked(&file, Some("roadmap-1.md"));
        assert!(
            items.len() >= named.min(count) && more == (items.len() < count),
            "{}",
            items.len()
        );
        assert!(text.contains("`roadmap-1.md`"), "{text}");
        for item in &items {
            assert!(text.contains(&format!("- `{}` Item", item.id)), "{}", item.id);
        }
        for n in items.len() + 1..=count {
            assert!(!text.contains(&format!("- `{n}` Item")), "{n} is named and not asked about");
        }
        let whole = whole_items(Some(&file), &all);
        for item in &all {
            let item = file.item(&item.id).unwrap();
            assert!(whole.contains(&item.title) && whole.contains(&item.criteria), "{whole}");
            assert!(whole.contains(&format!("order {}", item.id)), "{whole}");
        }
    }
    // Without an attached file, the question itself has everything that a yes is for.
    let file = roadmap(200);
    let ItemsQuestion { text, items, more } = asked(&file, None);
    assert!(more && items.len() > 10 && items.len() < 200, "{}", items.len());
    for item in &items {
        let item = file.item(&item.id).unwrap();
        assert!(
            text.contains(&item.title) && text.contains(&format!("order {}\n", item.id)),
            "{text}"
        );
    }
}
