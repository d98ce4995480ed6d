//! The imports of each file of a crate, as paths.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;

type Module = Vec<String>;

fn pattern(text: &str) -> Regex {
    Regex::new(text).unwrap()
}

static COMMENT: LazyLock<Regex> = LazyLock::new(|| pattern("//[^\n]*"));
static USED: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?m)^\s*(?:pub(?:\([a-z ]+\))?\s+)?use\s+([\w:{}*,\s]+);"));
static PASSED_ON: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?m)^\s*pub(?:\([a-z ]+\))?\s+use\s+([\w:{}*,\s]+);"));
static NAMED: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b(?:crate|super|self)(?:::\w+)+"));

/// Files of a crate without those of tests.
pub(crate) struct Sources {
    pub files: BTreeMap<PathBuf, String>,
}

impl Sources {
    pub(crate) fn read(folder: &Path) -> Self {
        let mut files = BTreeMap::new();
        gather(folder, folder, &mut files);
        Self { files }
    }

    /// Modules that can be reached from themselves.
    pub(crate) fn circles(&self) -> Vec<BTreeSet<String>> {
        named(find_circles(&Graph::of(self).arrows))
    }

    /// Circles among the children of each module, a folder taken as a whole.
    pub(crate) fn folder_circles(&self) -> Vec<BTreeSet<String>> {
        let graph = Graph::of(self);
        let mut levels = BTreeMap::<&[String], BTreeMap<Module, BTreeSet<Module>>>::new();
        for (from, targets) in &graph.arrows {
            for to in targets {
                let shared = from.iter().zip(to).take_while(|(one, other)| one == other).count();
                // A parent and what is below it are one folder.
                if shared == from.len() || shared == to.len() {
                    continue;
                }
                let child = |module: &Module| module[..=shared].to_vec();
                let level = levels.entry(&from[..shared]).or_default();
                level.entry(child(to)).or_default();
                level.entry(child(from)).or_default().insert(child(to));
            }
        }
        named(levels.values().flat_map(find_circles).collect())
    }
}

fn named(circles: Vec<BTreeSet<Module>>) -> Vec<BTreeSet<String>> {
    let name = |circle: BTreeSet<Module>| circle.iter().map(|module| module.join("::")).collect();
    circles.into_iter().map(name).collect()
}

/// Nodes of a graph that can be reached from each other, a set for each circle.
fn find_circles(arrows: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<BTreeSet<Module>> {
    let mut left: BTreeSet<&Module> = arrows.keys().collect();
    let reached: BTreeMap<_, _> =
        left.iter().map(|module| (*module, reach_from(arrows, module))).collect();
    let mut circles = Vec::new();
    while let Some(module) = left.pop_first() {
        let both = reached[module]
            .iter()
            .filter(|other| reached.get(*other).is_some_and(|reached| reached.contains(module)));
        let circle: BTreeSet<Module> = both.cloned().collect();
        if circle.len() > 1 {
            left.retain(|module| !circle.contains(*module));
            circles.push(circle);
        }
    }
    circles
}

fn reach_from(arrows: &BTreeMap<Module, BTreeSet<Module>>, from: &Module) -> BTreeSet<Module> {
    let mut seen = BTreeSet::new();
    let mut next: Vec<&Module> = arrows.get(from).into_iter().flatten().collect();
    while let Some(module) = next.pop() {
        if seen.insert(module.clone()) {
            next.extend(arrows.get(module).into_iter().flatten());
        }
    }
    seen
}

fn gather(root: &Path, folder: &Path, files: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let is_test = ["tests", "fuzz", "testing", "corpus", "hostile"].contains(&&*name);
        if path.is_dir() && !is_test {
            gather(root, &path, files);
        } else if path.extension().is_some_and(|end| end == "rs") && !is_test {
            let text = fs::read_to_string(&path).unwrap();
            files.insert(path.strip_prefix(root).unwrap().to_owned(), text);
        }
    }
}

/// Module path of a source file.
fn module_of(file: &Path) -> Module {
    let parts = file.with_extension("");
    let mut parts: Module = parts.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if parts.last().is_some_and(|last| ["mod", "lib", "main"].contains(&&**last)) {
        parts.pop();
    }
    parts
}

/// The graph of modules and the modules that they refer to.
struct Graph {
    arrows: BTreeMap<Module, BTreeSet<Module>>,
}

impl Graph {
    fn of(sources: &Sources) -> Self {
        let texts: BTreeMap<Module, String> =
            sources.files.iter().map(|(file, text)| (module_of(file), own(text))).collect();
        let mut exports = BTreeMap::<Module, BTreeMap<String, Module>>::new();
        for (module, text) in &texts {
            let passed_on = exported(text, module, &texts);
            exports.insert(module.clone(), passed_on);
        }
        let mut arrows = BTreeMap::new();
        for (module, text) in &texts {
            let named = mentioned(text).into_iter().map(|path| absolute(&path, module));
            let found = named.map(|path| resolve(&path, &texts, &exports, 0));
            let others = found.filter(|other| other != module).collect();
            arrows.insert(module.clone(), others);
        }
        Self { arrows }
    }
}

/// Text of a file without its tests and comments.
fn own(text: &str) -> String {
    // Not where tests are declared that stand in a file of their own: the rest of the file comes after that line.
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    COMMENT.replace_all(text, "").into_owned()
}

/// Paths that begin in this crate, in `use` and elsewhere, but not what is only passed on.
fn mentioned(text: &str) -> Vec<String> {
    let mut found: Vec<String> = USED
        .captures_iter(text)
        .flat_map(|use_| expanded(&use_[1]))
        .filter(|path| ["crate", "super"].iter().any(|start| path.starts_with(start)))
        .collect();
    let rest = USED.replace_all(text, "");
    let rest = NAMED.find_iter(&rest).map(|path| path.as_str().to_owned());
    found.extend(rest.filter(|path| !path.starts_with("self")));
    found
}

/// Names that a module re-exports, with the modules that they come from.
fn exported(
    text: &str,
    module: &Module,
    all: &BTreeMap<Module, String>,
) -> BTreeMap<String, Module> {
    let mut exports = BTreeMap::new();
    for path in PASSED_ON.captures_iter(text).flat_map(|use_| expanded(&use_[1])) {
        let mut full = absolute(&path, module);
        let child: Module =
            module.iter().cloned().chain(path.split("::").map(str::to_owned)).collect();
        if !["crate", "super", "self"].iter().any(|start| path.starts_with(start)) {
            full = child;
        }
        let head = full.iter().take(module.len() + 1).cloned().collect::<Module>();
        if let Some(name) = full.last().filter(|_| all.contains_key(&head) || full != head) {
            exports.insert(name.clone(), full.clone());
        }
    }
    exports
}

/// Each path of a tree of them: `a::{b, c::d}`.
fn expanded(tree: &str) -> Vec<String> {
    let tree = tree.split_whitespace().collect::<Vec<_>>().join(" ");
    let Some(open) = tree.find('{') else {
        return vec![tree.split(" as ").next().unwrap_or_default().trim().to_owned()];
    };
    let (before, inner) = (&tree[..open], &tree[open + 1..tree.rfind('}').unwrap_or(tree.len())]);
    let (mut depth, mut parts, mut part) = (0, Vec::new(), String::new());
    for letter in inner.chars() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(std::mem::take(&mut part));
                continue;
            }
            _ => {}
        }
        part.push(letter);
    }
    parts.push(part);
    let parts = parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty());
    parts.flat_map(|part| expanded(&format!("{before}{part}"))).collect()
}

fn absolute(path: &str, module: &Module) -> Module {
    let mut at = module.clone();
    let mut parts = path.split("::").peekable();
    if parts.next_if_eq(&"crate").is_some() {
        at.clear();
    }
    while let Some(part) = parts.next_if(|part| ["self", "super"].contains(part)) {
        if part == "super" {
            at.pop();
        }
    }
    at.extend(parts.map(str::to_owned));
    at
}

/// The module in which what a path names is declared.
fn resolve(
    path: &[String],
    all: &BTreeMap<Module, String>,
    exports: &BTreeMap<Module, BTreeMap<String, Module>>,
    depth: usize,
) -> Module {
    let at = (0..=path.len()).rev().find(|at| all.contains_key(&path[..*at])).unwrap_or_default();
    let (module, rest) = (path[..at].to_vec(), &path[at..]);
    let exported = rest.first().and_then(|name| exports.get(&module)?.get(name));
    match exported {
        Some(from) if depth < 6 && from != path => {
            let further: Module = from.iter().chain(&rest[1..]).cloned().collect();
            resolve(&further, all, exports, depth + 1)
        }
        _ => module,
    }
}
