//! Languages by the names of their files, with as much of each as colours need.

/// Lexical rules of a language, for highlighting.
#[derive(Debug)]
pub(super) struct CodeLanguage {
    /// Ends of file names behind the last dot, and whole names, in small letters.
    files: &'static str,
    pub keywords: &'static str,
    /// Keywords count in capital letters, too.
    pub any_case: bool,
    /// Beginnings of comments that last to the end of the line.
    pub line: &'static [&'static str],
    /// Comments with an end of their own.
    pub blocks: &'static [(&'static str, &'static str)],
    pub quotes: &'static str,
    /// Quotes of strings that go over lines.
    pub long_quotes: &'static [&'static str],
    /// A `'` without a partner on its line means something else.
    pub lone_quotes: bool,
    /// Between two `'` stands one character.
    pub characters: bool,
}

const PLAIN: CodeLanguage = CodeLanguage {
    files: "",
    keywords: "",
    any_case: false,
    line: &[],
    blocks: &[],
    quotes: "\"'",
    long_quotes: &[],
    lone_quotes: false,
    characters: false,
};

const BRACES: CodeLanguage = CodeLanguage { line: &["//"], blocks: &[("/*", "*/")], ..PLAIN };

const HASHES: CodeLanguage = CodeLanguage { line: &["#"], ..PLAIN };

static LANGUAGES: [CodeLanguage; 18] = [
    CodeLanguage {
        files: "rs",
        keywords: "as async await break const continue crate dyn else enum extern false fn for if impl in let \
                   loop match mod move mut pub ref return self Self static struct super trait true type union \
                   unsafe use where while",
        characters: true,
        ..BRACES
    },
    CodeLanguage {
        files: "c h cc cpp cxx hh hpp m mm cu glsl",
        keywords: "alignas auto bool break case catch char class const constexpr continue default delete do \
                   double else enum explicit extern false float for friend goto if inline int long namespace \
                   new nullptr operator private protected public return short signed sizeof static struct \
                   switch template this throw true try typedef typename union unsigned using virtual void \
                   volatile while NULL",
        characters: true,
        ..BRACES
    },
    CodeLanguage {
        files: "go mod",
        keywords: "any bool break case chan const continue default defer else error fallthrough false for func \
                   go goto if import interface int map nil package range return select string struct switch \
                   true type var",
        long_quotes: &["`"],
        ..BRACES
    },
    CodeLanguage {
        files: "js jsx mjs cjs ts tsx mts cts dart groovy gradle",
        keywords: "abstract as async await break case catch class const continue debugger declare default \
                   delete do else enum export extends false finally for from function get if implements import \
                   in instanceof interface keyof let new null of private protected public readonly return set \
                   static super switch this throw true try type typeof undefined var void while yield",
        long_quotes: &["`"],
        ..BRACES
    },
    CodeLanguage {
        files: "java kt kts scala cs swift",
        keywords: "abstract actor as async await base boolean break by byte case catch char class companion \
                   const continue data def default defer do double else enum extends extension false final \
                   finally float for fun func guard if implements import in init int interface internal is \
                   lateinit lazy let long match namespace native new nil null object open operator out \
                   override package private protected protocol public readonly record ref return sealed self \
                   short static string struct super suspend switch synchronized this throw throws trait true \
                   try typealias using val var virtual void volatile when where while with yield",
        long_quotes: &["\"\"\""],
        characters: true,
        ..BRACES
    },
    CodeLanguage {
        files: "php",
        keywords: "abstract array as break case catch class const continue declare default do echo else elseif \
                   enum extends false final finally fn for foreach function global if implements interface \
                   match namespace new null private protected public readonly return static switch this throw \
                   trait true try use var while",
        line: &["//", "#"],
        ..BRACES
    },
    CodeLanguage {
        files: "proto thrift zig odin sol",
        keywords: "bool bytes const contract double else enum false float fn for function if import int32 int64 \
                   map message new oneof option optional package pub public repeated required reserved return \
                   returns rpc service string struct syntax true try uint32 uint64 union var while",
        ..BRACES
    },
    CodeLanguage { files: "css scss less", line: &[], ..BRACES },
    CodeLanguage { files: "json jsonc json5", keywords: "false null true", quotes: "\"", ..BRACES },
    CodeLanguage {
        files: "py pyi bzl star",
        keywords: "and as assert async await break case class continue def del elif else except False finally \
                   for from global if import in is lambda match None nonlocal not or pass raise return self \
                   True try while with yield",
        long_quotes: &["\"\"\"", "'''"],
        ..HASHES
    },
    CodeLanguage {
        files: "rb rake gemspec gemfile rakefile cr ex exs",
        keywords: "alias and begin break case class def defmodule defp do else elsif end ensure false fn for if \
                   import in module next nil not or raise redo require rescue retry return self super then \
                   true undef unless until use when while with yield",
        ..HASHES
    },
    CodeLanguage {
        files: "sh bash zsh fish ksh bats dockerfile containerfile makefile mk justfile",
        keywords: "add arg case cmd copy do done elif else entrypoint env esac exit export expose fi for from \
                   function if in include label local readonly return run set shift source then trap unset \
                   until user volume while workdir",
        any_case: true,
        lone_quotes: true,
        ..HASHES
    },
    CodeLanguage {
        files: "yaml yml toml ini cfg conf properties env editorconfig gitconfig",
        keywords: "false no null off on true yes",
        line: &["#", ";"],
        lone_quotes: true,
        long_quotes: &["\"\"\"", "'''"],
        ..PLAIN
    },
    CodeLanguage {
        files: "tf hcl tfvars nix jl r pl pm",
        keywords: "data do else elseif end false for function if import in inherit let local locals module my \
                   output package provider resource return rec sub terraform then true use using variable \
                   while with",
        blocks: &[("/*", "*/")],
        lone_quotes: true,
        ..HASHES
    },
    CodeLanguage {
        files: "sql",
        keywords: "add all alter and as asc begin between by case cascade check column commit constraint create \
                   cross default delete desc distinct drop else end exists false foreign from full group having \
                   if in index inner insert into is join key left like limit not null offset on or order outer \
                   over partition primary references returning right rollback select set table then true union \
                   unique update using values view when where with",
        any_case: true,
        line: &["--"],
        blocks: &[("/*", "*/")],
        ..PLAIN
    },
    CodeLanguage {
        files: "lua",
        keywords: "and break do else elseif end false for function goto if in local nil not or repeat return \
                   then true until while",
        line: &["--"],
        blocks: &[("--[[", "]]")],
        ..PLAIN
    },
    CodeLanguage {
        files: "hs elm purs",
        keywords: "case class data deriving do else forall if import in infix instance let module newtype of \
                   then type where",
        line: &["--"],
        blocks: &[("{-", "-}")],
        characters: true,
        ..PLAIN
    },
    CodeLanguage {
        files: "html htm xml svg vue svelte xhtml xsd plist",
        blocks: &[("<!--", "-->")],
        quotes: "\"",
        ..PLAIN
    },
];

/// Finds the language of a file by its name.
pub(super) fn find_language(path: &str) -> Option<&'static CodeLanguage> {
    let name = path.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let end = name.rsplit('.').next().unwrap_or_default();
    let is_it = |language: &&CodeLanguage| language.files.split(' ').any(|known| known == end);
    LANGUAGES.iter().find(is_it)
}
