//! 2,000 files of every form, each with an edit: outside of it every byte stays, in the worktree and in the commit.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;

use super::*;
use crate::toolbox::git::{self, fixture::GitFixture};

const FILES: usize = 2000;

/// Numbers that look random, the same in each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % sides
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.roll(from.len())]
    }
}

/// Words as they are written in an encoding, and what they mean.
type Words = &'static [(&'static [u8], &'static str)];

/// A form, without help from what is tested.
#[derive(Clone, Copy)]
enum Form {
    Utf8 { mark: bool },
    Wide { bytes: usize, is_big: bool, mark: bool },
    Words(Words),
}

const WORDS: [Words; 7] = [
    &[(b"caf\xe9", "café"), (b"na\xefve", "naïve"), (b"gr\xfc\xdfe", "grüße")],
    &[(b"\x93quoted\x94", "“quoted”"), (b"\x80 5", "€ 5"), (b"caf\xe9 \x96", "café –")],
    &[
        (b"\x93\xfa\x96\x7b\x8c\xea\x82\xcc\x90\xdd\x92\xe8", "日本語の設定"),
        (b"\x82\xb1\x82\xea\x82\xcd", "これは"),
    ],
    &[(b"\xd6\xd0\xce\xc4\xc5\xe4\xd6\xc3", "中文配置"), (b"\xce\xc4\xbc\xfe", "文件")],
    &[
        (b"\xc7\xd1\xb1\xdb \xbc\xb3\xc1\xa4", "한글 설정"),
        (b"\xc6\xc4\xc0\xcf\xc0\xd4\xb4\xcf\xb4\xd9", "파일입니다"),
    ],
    &[(b"\xf0\xd2\xc9\xd7\xc5\xd4 \xcd\xc9\xd2", "Привет мир"), (b"\xc6\xc1\xca\xcc", "файл")],
    &[(b"\xcf\xf0\xe8\xe2\xe5\xf2 \xec\xe8\xf0", "Привет мир"), (b"\xf4\xe0\xe9\xeb", "файл")],
];
const ANY_WORDS: [&str; 6] =
    ["grüße", "日本", "\u{1f600}", "“q”", "nel\u{85}ls\u{2028}ff\u{c}", "tab\t  "];

impl Form {
    fn roll(dice: &mut Dice) -> Self {
        let mark = dice.roll(2) == 0;
        match dice.roll(4) {
            0 => Self::Utf8 { mark },
            1 => Self::Wide { bytes: dice.pick(&[2, 4]), is_big: dice.roll(2) == 0, mark },
            _ => Self::Words(dice.pick(&WORDS)),
        }
    }

    fn word(self, dice: &mut Dice) -> String {
        match self {
            Self::Words(words) => dice.pick(words).1.to_owned(),
            _ => dice.pick(&ANY_WORDS).to_owned(),
        }
    }

    fn mark(self) -> Vec<u8> {
        match self {
            Self::Utf8 { mark: true } => vec![0xef, 0xbb, 0xbf],
            Self::Wide { mark: true, .. } => self.encode("\u{feff}"),
            _ => Vec::new(),
        }
    }

    fn encode(self, text: &str) -> Vec<u8> {
        match self {
            Self::Utf8 { .. } => text.as_bytes().to_vec(),
            Self::Wide { bytes: 2, is_big, .. } => text
                .encode_utf16()
                .flat_map(|unit| if is_big { unit.to_be_bytes() } else { unit.to_le_bytes() })
                .collect(),
            Self::Wide { is_big, .. } => text
                .chars()
                .map(u32::from)
                .flat_map(|code| if is_big { code.to_be_bytes() } else { code.to_le_bytes() })
                .collect(),
            Self::Words(words) => {
                let mut out = Vec::new();
                let mut rest = text;
                while let Some(first) = rest.chars().next() {
                    if let Some((bytes, word)) =
                        words.iter().find(|(_, word)| rest.starts_with(word))
                    {
                        out.extend_from_slice(bytes);
                        rest = &rest[word.len()..];
                    } else {
                        assert!(first.is_ascii(), "{first:?} of {text:?}");
                        out.push(u8::try_from(first).unwrap());
                        rest = &rest[1..];
                    }
                }
                out
            }
        }
    }
}

/// A file by its lines, each with its end.
#[derive(Clone)]
struct Lined {
    form: Form,
    lines: Vec<(String, &'static str)>,
}

impl Lined {
    fn roll(dice: &mut Dice) -> Self {
        let form = Form::roll(dice);
        let ends: &[&str] = dice.pick(&[&["\n"][..], &["\r\n"], &["\r"], &["\n", "\r\n", "\r"]]);
        let mut lines: Vec<(String, &str)> = (0..2 + dice.roll(10))
            .map(|n| {
                let space = dice.pick(&["", " ", "\t", "  "]);
                (
                    format!("{space}{} key{n}=1 ; some words{space}", form.word(dice)),
                    dice.pick(ends),
                )
            })
            .collect();
        if dice.roll(3) == 0 {
            lines.last_mut().unwrap().1 = "";
        }
        // `\r` before a line that begins with `\n` would be one end.
        Self { form, lines }
    }

    fn bytes(&self) -> Vec<u8> {
        let text: String = self.lines.iter().flat_map(|(line, end)| [line.as_str(), end]).collect();
        [self.form.mark(), self.form.encode(&text)].concat()
    }

    fn joined(&self, range: std::ops::RangeInclusive<usize>) -> String {
        self.lines[range].iter().map(|(line, _)| line.as_str()).collect::<Vec<_>>().join("\n")
    }

    /// Replaces a line by new ones; those that are added are ended as it was.
    fn with(&self, at: usize, new: &[String]) -> Self {
        let mut next = self.clone();
        let end = self.lines[at].1;
        // Behind a last line without an end others follow: then it is ended as the one before it.
        let inner = if end.is_empty() { self.lines[at - 1].1 } else { end };
        let count = new.len();
        let lines = new.iter().enumerate();
        let lines = lines.map(|(n, line)| (line.clone(), if n + 1 == count { end } else { inner }));
        next.lines.splice(at..=at, lines);
        next
    }
}

/// A file, what is done to it, and what it is afterwards.
struct Trial {
    before: Vec<u8>,
    after: Vec<u8>,
    act: Act,
}

enum Act {
    Edit(String, String),
    Patch(String),
    Write(String),
}

fn roll_text(dice: &mut Dice) -> Trial {
    let file = Lined::roll(dice);
    let at = 1 + dice.roll(file.lines.len() - 1);
    let (old, _) = file.lines[at].clone();
    let mut new = vec![old.replace("=1", &format!("=2 {}", file.form.word(dice)))];
    if dice.roll(3) == 0 {
        new.push(format!("more {}", file.form.word(dice)));
    }
    let after = file.with(at, &new);
    let act = match dice.roll(4) {
        0 => Act::Edit(
            format!("key{at}=1"),
            new.join("\n")
                .replacen(&old[..old.find("key").unwrap()], "", 1)
                .split(" ; ")
                .next()
                .unwrap()
                .to_owned(),
        ),
        1 => Act::Edit(
            file.joined(at - 1..=at),
            format!("{}\n{}", file.lines[at - 1].0, new.join("\n")),
        ),
        2 => {
            let added: String = new.iter().flat_map(|line| ["+", line.as_str(), "\n"]).collect();
            Act::Patch(format!(" {}\n-{old}\n{added}", file.lines[at - 1].0))
        }
        _ => Act::Write(after.joined(0..=after.lines.len() - 1) + "\n"),
    };
    // A word inside a line is replaced in one line only.
    let after = match &act {
        Act::Edit(part, text) if !part.contains('\n') => {
            file.with(at, &[old.replace(part.as_str(), text)])
        }
        _ => after,
    };
    Trial { before: file.bytes(), after: after.bytes(), act }
}

/// A notebook as some program laid it out, and an edit of one word of a cell.
fn roll_notebook(dice: &mut Dice) -> Trial {
    let indent = dice.pick(&["", " ", "    ", "\t"]);
    let (end, colon) = if indent.is_empty() { ("", dice.pick(&[":", ": "])) } else { ("\n", ": ") };
    let (one, two, three) = (indent.to_owned(), indent.repeat(2), indent.repeat(3));
    let e = dice.pick(&["é", "\\u00e9", "\\u00E9"]);
    let cells: Vec<String> = (0..=dice.roll(5))
        .map(|n| {
            let lines = [format!("# caf{e} {n}\\n"), format!("key{n} = \\\"one\\\"\\n"), "print(1)".to_owned()];
            let source = if dice.roll(2) == 0 {
                format!("\"{}\"", lines.concat())
            } else {
                let lines: Vec<String> = lines.iter().map(|line| format!("{three}{indent}\"{line}\"")).collect();
                format!("[{end}{}{end}{three}]", lines.join(&format!(",{end}")))
            };
            format!(
                "{two}{{{end}{three}\"cell_type\"{colon}\"code\",{end}{three}\"execution_count\"{colon}null,{end}\
                 {three}\"metadata\"{colon}{{ \"x\" :1.50}},{end}{three}\"outputs\"{colon}[{{\"text\" : [\"key{n} \
                 \\u00e9\"]}}],{end}{three}\"source\"{colon}{source}{end}{two}}}"
            )
        })
        .collect();
    let at = dice.roll(cells.len());
    let last = dice.pick(&["", "\n"]);
    let before = format!(
        "{{{end}{one}\"cells\"{colon}[{end}{}{end}{one}],{end}{one}\"metadata\"{colon}{{}},{end}{one}\
         \"nbformat\"{colon}4,{end}{one}\"nbformat_minor\"{colon}2{end}}}{last}",
        cells.join(&format!(",{end}"))
    );
    let after =
        before.replace(&format!("key{at} = \\\"one\\\""), &format!("key{at} = [\\\"\\t\\\\\\\"]"));
    let act = Act::Edit(format!("key{at} = \"one\""), format!("key{at} = [\"\t\\\"]"));
    Trial { before: before.into_bytes(), after: after.into_bytes(), act }
}

fn act_on(place: &Place, path: &str, act: &Act) -> Result<String, ToolError> {
    place.read(path, None, None)?;
    match act {
        Act::Edit(old, new) => place.edit(path, &[(old, new)]),
        Act::Patch(body) => {
            let whole = format!("*** Begin Patch\n*** Update File: {path}\n{body}*** End Patch");
            let args = args::EditArgs { patch: Some(whole), ..args::EditArgs::default() };
            let plan = plan_edit(&place.tree, &place.seen, &args)?;
            edit_files(&place.tree, &place.seen, place.dir.path(), &args, &plan)
        }
        Act::Write(content) => place.write(path, content),
    }
}

#[test]
fn two_thousand_files_keep_every_byte_outside_of_an_edit() {
    let f = GitFixture::new();
    git::prepare_worktree(&f.place).unwrap();
    let tree = WorktreeRoot::open(&f.place.tree()).unwrap();
    // Scratch files are on the same volume.
    let scratch = tempfile::tempdir_in(&f.place.work).unwrap();
    let place = Place { dir: scratch, tree, seen: SeenFiles::default() };
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let mut expected = BTreeMap::new();
    let (mut done, mut refused) = (0, Vec::new());
    for number in 0..FILES {
        let is_book = dice.roll(6) == 0;
        let trial = if is_book { roll_notebook(&mut dice) } else { roll_text(&mut dice) };
        let path = format!("f{number}{}", if is_book { ".ipynb" } else { "" });
        place.put(&path, &trial.before);
        let full = place.tree.root().join(&path);
        let mode = dice.pick(&[0o644, 0o755]);
        fs::set_permissions(&full, Permissions::from_mode(mode)).unwrap();
        let link = format!("link{number}{}", if is_book { ".ipynb" } else { "" });
        let is_linked = dice.roll(5) == 0;
        if is_linked {
            symlink(&path, place.tree.root().join(&link)).unwrap();
        }
        let named = if is_linked { &link } else { &path };
        let after = match act_on(&place, named, &trial.act) {
            Ok(_) => {
                done += 1;
                &trial.after
            }
            Err(why) => {
                refused.push(format!("{path}: {why}"));
                &trial.before
            }
        };
        let now = fs::read(&full).unwrap();
        assert_eq!(
            String::from_utf8_lossy(&now),
            String::from_utf8_lossy(after),
            "{path} was {:?}",
            String::from_utf8_lossy(&trial.before)
        );
        assert_eq!(&now, after, "{path}");
        assert_eq!(fs::metadata(&full).unwrap().permissions().mode() & 0o777, mode, "{path}");
        assert!(!is_linked || place.tree.root().join(&link).is_symlink());
        expected.insert(path, (now, mode));
    }
    // A few words may look like another encoding; what is not understood is left alone.
    assert!(done >= FILES * 95 / 100, "{done} of {FILES} done: {refused:#?}");
    let args = args::GitCommit { message: "Edit all".into(), paths: None };
    let parent = git::head_commit(&f.place).unwrap();
    git::commit_files(&f.place, &place.tree, &args, &parent).unwrap();
    let repo = git2::Repository::open(place.tree.root()).unwrap();
    let commit = repo.head().unwrap().peel_to_tree().unwrap();
    for (path, (bytes, mode)) in &expected {
        let entry = commit.get_name(path).unwrap();
        assert_eq!(repo.find_blob(entry.id()).unwrap().content(), bytes, "{path}");
        assert_eq!(entry.filemode() & 0o100 != 0, *mode == 0o755, "{path}");
    }
    assert!(commit.iter().filter(|entry| entry.filemode() == 0o120_000).count() > FILES / 10);
}
