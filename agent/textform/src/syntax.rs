//! Detection of files that could be parsed before a change and can't be after it.

use std::path::Path;

use granit_parser::{Event, Parser};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::notebook::with_finite_numbers;

/// A syntax that is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyntaxKind {
    /// JSON; where `is_relaxed`, with comments and commas at the end, too, whatever it was before.
    Json {
        /// Programs read this file so by its name.
        is_relaxed: bool,
    },
    /// A JSON value in each line.
    JsonLines,
    /// YAML of any number of documents.
    Yaml {
        /// True if the file is where the templates of a chart are.
        is_in_templates: bool,
    },
    Toml,
    Xml,
    /// Jupyter notebook (JSON).
    Notebook,
}

/// A text that is not, or not any more, what it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("was valid {name} and is not after this change: {why}")]
pub struct BrokenSyntax {
    /// Name of the syntax.
    pub name: &'static str,
    /// Error of the parser, with its place.
    pub why: String,
}

impl SyntaxKind {
    /// The syntax of a file, by its name.
    pub fn of_path(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
        Some(match extension {
            "ipynb" => Self::Notebook,
            "json" | "geojson" | "webmanifest" | "har" | "avsc" | "map" => {
                Self::Json { is_relaxed: is_relaxed_name(path, &name) }
            }
            "jsonc" | "json5" | "hjson" | "code-workspace" => Self::Json { is_relaxed: true },
            "jsonl" | "ndjson" => Self::JsonLines,
            "yaml" | "yml" => Self::Yaml { is_in_templates: is_in_templates(path) },
            "toml" => Self::Toml,
            "xml" | "svg" | "xsd" | "xsl" | "xslt" | "wsdl" | "plist" | "csproj" | "fsproj"
            | "vbproj" | "vcxproj" | "props" | "targets" | "nuspec" | "resx" | "xaml" | "pom"
            | "rss" | "atom" | "xhtml" => Self::Xml,
            _ => match name.as_str() {
                "cargo.lock" | "poetry.lock" | "uv.lock" | "pipfile" | "gopkg.lock" => Self::Toml,
                "composer.lock" | "pipfile.lock" | "flake.lock" | "deno.lock" => {
                    Self::Json { is_relaxed: false }
                }
                ".babelrc" | ".swcrc" | ".jshintrc" => Self::Json { is_relaxed: true },
                ".clang-format" | ".clang-tidy" | ".yamllint" => {
                    Self::Yaml { is_in_templates: false }
                }
                _ => return None,
            },
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Json { .. } => "JSON",
            Self::JsonLines => "JSON in each line",
            Self::Yaml { .. } => "YAML",
            Self::Toml => "TOML",
            Self::Xml => "XML",
            Self::Notebook => "JSON of a notebook",
        }
    }

    /// Error of the parser on a text, if there is one.
    fn fault(self, text: &str) -> Option<String> {
        match self {
            Self::Json { .. } => strict_json_fault(text),
            Self::Notebook => strict_json_fault(&with_finite_numbers(text)),
            Self::JsonLines => text.lines().enumerate().find_map(|(at, line)| {
                let fault = (!line.trim().is_empty()).then(|| strict_json_fault(line))??;
                Some(format!("line {}: {fault}", at + 1))
            }),
            Self::Yaml { .. } => {
                Parser::new_from_str(text).find_map(Result::err).map(|e| e.to_string())
            }
            Self::Toml => toml::de::DeTable::parse(text).err().map(|error| {
                let line = error.span().map(|span| 1 + text[..span.start].matches('\n').count());
                let place = line.map_or_else(String::new, |line| format!("line {line}: "));
                format!("{place}{}", error.message())
            }),
            Self::Xml => {
                let options = roxmltree::ParsingOptions {
                    allow_dtd: true,
                    ..roxmltree::ParsingOptions::default()
                };
                roxmltree::Document::parse_with_options(text, options).err().map(|e| e.to_string())
            }
        }
    }
}

/// That a text could be parsed before a change and can't be now. A text that could not be parsed before, such as
/// a template, says nothing; nor does an empty one.
pub fn compare_syntax(kind: SyntaxKind, before: &str, after: &str) -> Option<BrokenSyntax> {
    let broken = |why| Some(BrokenSyntax { name: kind.name(), why });
    let is_strict = kind.fault(before).is_none();
    if let SyntaxKind::Json { is_relaxed } = kind
        && (is_relaxed || !is_strict)
    {
        // A file that never parsed as strict JSON is read with comments by somebody.
        return match (relaxed_json_fault(before), relaxed_json_fault(after)) {
            (None, Some(why)) => broken(why),
            _ => None,
        };
    }
    if !is_strict || before.trim().is_empty() {
        return None;
    }
    if let SyntaxKind::Yaml { is_in_templates } = kind
        && is_template(before, is_in_templates)
    {
        return None;
    }
    kind.fault(after).and_then(broken)
}

/// Files whose own programs read them with comments.
fn is_relaxed_name(path: &Path, name: &str) -> bool {
    let folder = path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    let is_config = |start: &str| name.starts_with(start);
    matches!(folder, Some(".vscode" | ".devcontainer" | ".zed"))
        || is_config("tsconfig")
        || is_config("jsconfig")
        || is_config("tslint")
        || is_config("api-extractor")
        || matches!(
            name,
            ".eslintrc.json" | ".jshintrc" | "devcontainer.json" | "deno.json" | "turbo.json"
        )
        || matches!(name, "typedoc.json" | "wrangler.json" | "babel.config.json" | ".babelrc.json")
}

/// Returns true if a file lies below a folder `templates`, where a chart has its templates.
fn is_in_templates(path: &Path) -> bool {
    path.parent()
        .is_some_and(|folder| folder.components().any(|part| part.as_os_str() == "templates"))
}

/// A template of Helm or Jinja may happen to be YAML. In quotes, in the middle of a plain text or in a block of
/// lines, `{{ … }}` is part of a value, as in workflows and rules; where a value begins it is a mapping of mappings
/// to YAML, which nobody writes.
fn is_template(text: &str, is_in_templates: bool) -> bool {
    let mut marks = text.match_indices("{{");
    if text.contains("{%") || (is_in_templates && marks.any(|(at, _)| !text[..at].ends_with('$'))) {
        return true;
    }
    text.contains("{{")
        && Parser::new_from_str(text).flatten().any(|(event, span)| {
            let place = span.start.byte_offset().and_then(|at| text.get(at..));
            matches!(event, Event::MappingStart(..)) && place.is_some_and(|at| at.starts_with("{{"))
        })
}

fn strict_json_fault(text: &str) -> Option<String> {
    // As deep as it is: what a person wrote is no attack, and what is too deep says nothing.
    serde_json::from_str::<serde::de::IgnoredAny>(text).err().map(|error| error.to_string())
}

fn relaxed_json_fault(text: &str) -> Option<String> {
    let options = ParseOptions { allow_missing_commas: false, ..ParseOptions::default() };
    match parse_to_ast(text, &CollectOptions::default(), &options) {
        Ok(parsed) if parsed.value.is_some() => None,
        Ok(_) => Some("there is no value".to_owned()),
        Err(error) => Some(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(path: &str, before: &str, after: &str) -> Option<String> {
        let kind = SyntaxKind::of_path(Path::new(path))?;
        compare_syntax(kind, before, after).map(|broken| broken.to_string())
    }

    #[test]
    fn what_parsed_and_parses_no_more_is_named_with_its_place() {
        for (path, before, after, place) in [
            ("package.json", "{\"a\": 1}", "{\"a\": 1,}", "line 1 column 9"),
            ("package.json", "{\"a\": 1}", "// x\n{\"a\": 1}", "line 1"),
            ("package.json", "{\"a\": 1}", "", "JSON"),
            ("tsconfig.json", "{// x\n\"a\": 1,}", "{\"a\": 1", "JSON"),
            (".vscode/settings.json", "{}", "{", "JSON"),
            ("a.jsonl", "{}\n[]\n", "{}\n[\n", "line 2"),
            ("a.yaml", "a: 1\n---\nb: [1]\n", "a: 1\n---\nb: [1\n", "YAML"),
            ("a.yml", "a: 1\n", "a: 1\n  b: 2\n", "YAML"),
            ("ci.yml", "a: ${{ b }}\n", "a: ${{ b }}\nc: [\n", "YAML"),
            ("ci.yml", "a: \"{{ b }}\"\n", "a: \"{{ b }}\"\nc: [\n", "YAML"),
            ("site.yml", "- a: x == {{ b }}\n", "- a: x == {{ b }}\n b: 1\n", "YAML"),
            ("rules.yaml", "a: |\n  {{ $value }} up\n", "a: |\n  {{ $value }} up\nb\n", "YAML"),
            ("Taskfile.yml", "a: go {{.X}} # {{\n", "a: go {{.X}}\n  b: 1\n", "YAML"),
            ("ci.yml", "a: 'é {{ b }}'\n", "a: 'é {{ b }}'\n- c\n", "YAML"),
            ("templates/job.yml", "a: ${{ b }}\n", "a: ${{ b }}\nc: [\n", "YAML"),
            ("Cargo.toml", "[a]\nb = 1\n", "[a]\nb = \n", "line 2"),
            ("Cargo.toml", "[a]\nb = 1\n", "[a]\nb = 1\nb = 2\n", "line 3"),
            ("pom.xml", "<a><b/></a>", "<a><b></a>", "XML"),
            ("pom.xml", "<a><b/></a>", "<a><b/>", "XML"),
            ("a.svg", "<svg/>", "<svg a=b/>", "XML"),
            ("n.ipynb", "{\"cells\": []}", "{\"cells\": [}", "notebook"),
        ] {
            let told = broken(path, before, after).unwrap_or_default();
            assert!(told.contains(place), "{path} {after:?}: {told}");
        }
    }

    #[test]
    fn what_never_parsed_or_still_does_is_not_spoken_of() {
        for (path, before, after) in [
            ("tsconfig.json", "{}", "{ // comment\n \"a\": 1,\n}"),
            ("a.json", "{ /* x */ }", "{ /* x */ \"a\": 'b', }"),
            ("a.json5", "{a: 1}", "{a: 0xFF, b: .5, c: +1, d: Infinity,}"),
            ("chart.yaml", "a: {{ .Values.a }}\nb: {{ x }}\n", "a: {{ .Values.b }\n"),
            ("chart.yaml", "é: x\n\na: {{ .Values.a }}\n", "a: {{ .Values.b }\n"),
            ("a.yaml", "{{ a }}: 1\n", "{{ a }: 1\n"),
            ("a.yaml", "# {% if x %}\na: 1\n", "# {% if x %}\na: 1\n  b: 2\n"),
            (
                "chart/templates/a.yaml",
                "a: x-{{ .B }}\n",
                "{{- if .C }}\na: x-{{ .B }}\n{{- end }}\n",
            ),
            ("a.yaml", "a: 1\n---\nb: 2\n", "a: 1\n---\nb: 2\n---\nc: 3\n"),
            ("a.yaml", "", "a: ["),
            ("a.json", "", "{"),
            ("a.toml", "{{x}}", "{{y}}"),
            (
                "a.xml",
                "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>",
                "<!DOCTYPE a [<!ENTITY b 'c'>]><a/>",
            ),
            ("a.html", "<a>", "<b"),
            ("a.rs", "fn", "f"),
        ] {
            assert_eq!(broken(path, before, after), None, "{path} {after:?}");
        }
    }
}
