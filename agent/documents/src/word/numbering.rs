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
    /// Number of levels, from the first, whose items have this one begin anew.
    restart: usize,
    /// The numbers in its text are shown in digits, as in "4.1" of an article IV.
    is_legal: bool,
}

/// A list that paragraphs are in, which may define levels otherwise than the list that it counts with.
#[derive(Debug, Default)]
struct ListInstance {
    of: String,
    starts: HashMap<usize, u32>,
    levels: HashMap<usize, ListLevel>,
}

/// A document's lists, and how far each has counted.
#[derive(Debug, Default)]
pub(super) struct Numbering {
    /// Levels of each abstract list, by its id.
    lists: HashMap<String, Vec<ListLevel>>,
    instances: HashMap<String, ListInstance>,
    counters: HashMap<String, [Option<u32>; LEVELS]>,
    started: Vec<String>,
}

impl Numbering {
    /// Reads the lists from the part that defines them.
    pub(super) fn read(root: Node<'_, '_>) -> Self {
        let mut numbering = Self::default();
        // A list may have its levels by a style, which another list defines.
        let (mut defined, mut borrowed) = (HashMap::new(), Vec::new());
        for node in root.children() {
            match node.local() {
                "abstractNum" => {
                    let id = node.attribute_local("abstractNumId").unwrap_or_default().to_owned();
                    let mut levels = vec![ListLevel::default(); LEVELS];
                    for level in node.children().filter(|child| child.has_tag_name_local("lvl")) {
                        if let Some(index) = level_index(level) {
                            levels[index] = read_level(level);
                        }
                    }
                    if node.child("numStyleLink").is_some() {
                        borrowed.push((id.clone(), value_of(node, "numStyleLink")));
                    } else if node.child("styleLink").is_some() {
                        defined.insert(value_of(node, "styleLink"), id.clone());
                    }
                    numbering.lists.insert(id, levels);
                }
                "num" => {
                    let id = node.attribute_local("numId").unwrap_or_default().to_owned();
                    numbering.instances.insert(id, read_instance(node));
                }
                _ => {}
            }
        }
        for (id, style) in borrowed {
            let levels = defined.get(&style).and_then(|from| numbering.lists.get(from)).cloned();
            if let Some(levels) = levels {
                numbering.lists.insert(id, levels);
            }
        }
        numbering
    }

    /// The mark of the next item of a list at a level.
    pub(super) fn next_mark(&mut self, list: &str, level: usize) -> String {
        let level = level.min(LEVELS - 1);
        let Some(instance) = self.instances.get(list) else { return "-".to_owned() };
        let Some(levels) = self.lists.get(&instance.of) else { return "-".to_owned() };
        let levels = levels.iter().enumerate();
        let levels: Vec<&ListLevel> =
            levels.map(|(at, level)| instance.levels.get(&at).unwrap_or(level)).collect();
        let counters = self.counters.entry(instance.of.clone()).or_default();
        if !self.started.iter().any(|known| known == list) {
            self.started.push(list.to_owned());
            for (at, start) in &instance.starts {
                if let Some(counter) = counters.get_mut(*at) {
                    *counter = start.checked_sub(1);
                }
            }
        }
        let next = counters[level].map_or(levels[level].start, |now| now.saturating_add(1));
        counters[level] = Some(next);
        for (counter, below) in counters.iter_mut().zip(&levels).skip(level + 1) {
            if level < below.restart {
                *counter = None;
            }
        }
        let ListLevel { format, text, is_legal, .. } = levels[level];
        if format.is_empty() || format == "bullet" {
            return "-".to_owned();
        }
        if format == "none" {
            return String::new();
        }
        let mut mark = text.clone();
        for (at, level) in levels.iter().enumerate() {
            let number = counters[at].unwrap_or(level.start);
            let format = match level.format.as_str() {
                "decimalZero" => "decimalZero",
                _ if *is_legal => "decimal",
                format => format,
            };
            mark = mark.replace(&format!("%{}", at + 1), &format_number(number, format));
        }
        mark
    }
}

fn read_level(level: Node<'_, '_>) -> ListLevel {
    ListLevel {
        format: value_of(level, "numFmt"),
        text: value_of(level, "lvlText"),
        start: value_of(level, "start").parse().unwrap_or(1),
        restart: value_of(level, "lvlRestart").parse().unwrap_or(LEVELS),
        is_legal: level.is_switched("isLgl"),
    }
}

fn read_instance(list: Node<'_, '_>) -> ListInstance {
    let mut instance =
        ListInstance { of: value_of(list, "abstractNumId"), ..ListInstance::default() };
    for node in list.children().filter(|child| child.has_tag_name_local("lvlOverride")) {
        let Some(index) = level_index(node) else { continue };
        if let Ok(start) = value_of(node, "startOverride").parse() {
            instance.starts.insert(index, start);
        }
        if let Some(level) = node.child("lvl") {
            instance.levels.insert(index, read_level(level));
        }
    }
    instance
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
