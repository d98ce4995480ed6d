//! Marks of list items as Word would print them: "3.2" is how people speak of a paragraph.

use std::collections::HashMap;
use std::fmt::Write as _;

use roxmltree::Node;

use crate::xml::Element;

/// Number of levels that a list can have.
const LEVELS: usize = 9;

#[derive(Clone, Debug, Default)]
struct ListLevel {
    format: String,
    text: String,
    start: u32,
}

/// A document's lists, and how far each has counted.
#[derive(Debug, Default)]
pub(super) struct Numbering {
    /// Levels of each abstract list, by its id.
    lists: HashMap<String, Vec<ListLevel>>,
    /// Abstract list and first numbers, by list.
    instances: HashMap<String, (String, HashMap<usize, u32>)>,
    counters: HashMap<String, [Option<u32>; LEVELS]>,
    started: Vec<String>,
}

impl Numbering {
    /// Reads the lists from the part that defines them.
    pub(super) fn read(root: Node<'_, '_>) -> Self {
        let mut numbering = Self::default();
        for node in root.children() {
            match node.local() {
                "abstractNum" => {
                    let id = node.attribute_local("abstractNumId").unwrap_or_default().to_owned();
                    let mut levels = vec![ListLevel::default(); LEVELS];
                    for level in node.children().filter(|child| child.has_tag_name_local("lvl")) {
                        let Some(slot) = level_index(level).and_then(|index| levels.get_mut(index))
                        else {
                            continue;
                        };
                        *slot = ListLevel {
                            format: value_of(level, "numFmt"),
                            text: value_of(level, "lvlText"),
                            start: value_of(level, "start").parse().unwrap_or(1),
                        };
                    }
                    numbering.lists.insert(id, levels);
                }
                "num" => {
                    let id = node.attribute_local("numId").unwrap_or_default().to_owned();
                    let starts =
                        node.children().filter(|child| child.has_tag_name_local("lvlOverride"));
                    let starts = starts.filter_map(|child| {
                        Some((level_index(child)?, value_of(child, "startOverride").parse().ok()?))
                    });
                    let starts = starts.collect();
                    numbering.instances.insert(id, (value_of(node, "abstractNumId"), starts));
                }
                _ => {}
            }
        }
        numbering
    }

    /// The mark of the next item of a list at a level.
    pub(super) fn next_mark(&mut self, list: &str, level: usize) -> String {
        let level = level.min(LEVELS - 1);
        let Some((of, starts)) = self.instances.get(list) else { return "-".to_owned() };
        let Some(levels) = self.lists.get(of) else { return "-".to_owned() };
        let counters = self.counters.entry(of.clone()).or_default();
        if !self.started.iter().any(|known| known == list) {
            self.started.push(list.to_owned());
            for (at, start) in starts {
                if let Some(counter) = counters.get_mut(*at) {
                    *counter = start.checked_sub(1);
                }
            }
        }
        let start = levels[level].start;
        let next = counters[level].map_or(start, |now| now.saturating_add(1));
        counters[level] = Some(next);
        counters[level + 1..].fill(None);
        let ListLevel { format, text, .. } = &levels[level];
        if format.is_empty() || format == "bullet" {
            return "-".to_owned();
        }
        if format == "none" {
            return String::new();
        }
        let mut mark = text.clone();
        for (at, level) in levels.iter().enumerate() {
            let number = counters[at].unwrap_or(level.start);
            mark = mark.replace(&format!("%{}", at + 1), &format_number(number, &level.format));
        }
        mark
    }
}

fn level_index(node: Node<'_, '_>) -> Option<usize> {
    node.attribute_local("ilvl")?.parse().ok().filter(|index| *index < LEVELS)
}

fn value_of(node: Node<'_, '_>, name: &str) -> String {
    node.child(name).and_then(|child| child.attribute_local("val")).unwrap_or_default().to_owned()
}

fn format_number(number: u32, format: &str) -> String {
    match format {
        "lowerLetter" => letters(number),
        "upperLetter" => letters(number).to_uppercase(),
        "lowerRoman" => roman(number),
        "upperRoman" => roman(number).to_uppercase(),
        "decimalZero" => format!("{number:02}"),
        _ => number.to_string(),
    }
}

/// Number in letters: a to z, then aa to zz.
fn letters(number: u32) -> String {
    let Some(index) = number.checked_sub(1) else { return "0".to_owned() };
    let letter = char::from(b'a' + u8::try_from(index % 26).unwrap_or_default());
    letter.to_string().repeat((index / 26 + 1).min(50) as usize)
}

fn roman(mut number: u32) -> String {
    const PARTS: [(u32, &str); 13] = [
        (1000, "m"),
        (900, "cm"),
        (500, "d"),
        (400, "cd"),
        (100, "c"),
        (90, "xc"),
        (50, "l"),
        (40, "xl"),
        (10, "x"),
        (9, "ix"),
        (5, "v"),
        (4, "iv"),
        (1, "i"),
    ];
    if number == 0 || number > 5000 {
        return number.to_string();
    }
    let mut out = String::new();
    for (value, letters) in PARTS {
        while number >= value {
            let _ = write!(out, "{letters}");
            number -= value;
        }
    }
    out
}
