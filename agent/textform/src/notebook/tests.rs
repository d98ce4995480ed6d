use super::super::lines::LinedText;
use super::*;
use crate::syntax::{SyntaxKind, compare_syntax};

const BOOK: &str = r##"{
 "cells": [
  {
   "cell_type": "markdown",
   "id": "aa",
   "metadata": { "tags" : [ "x" ]},
   "source": "# Title\nW\u00f6rds"
  },
  {
   "cell_type": "code",
   "execution_count": 3,
   "id": "bb",
   "metadata": {},
   "outputs": [
    {"name": "stdout", "output_type": "stream", "text": ["0.5\n"]}
   ],
   "source": [
    "import math\n",
    "rate = 0.5\n",
    "print(\"rate\", rate)"
   ]
  },
  {
   "cell_type": "code",
   "execution_count": null,
   "id": "cc",
   "metadata": {},
   "outputs": [],
   "source": []
  }
 ],
 "metadata": {"kernelspec": {"name": "python3"}},
 "nbformat": 4,
 "nbformat_minor": 5
}
"##;

fn edited(json: &str, old: &str, new: &str) -> Result<String, NotebookFault> {
    let book = NotebookText::parse(json).unwrap();
    let mut view = LinedText::split(book.view());
    let at = view.text().find(old).unwrap();
    view.replace(at..at + old.len(), new, false);
    book.with_view(&view)
}

#[test]
fn a_notebook_is_shown_by_cells() {
    let book = NotebookText::parse(BOOK).unwrap();
    assert_eq!(
        book.view(),
        "# [markdown 1]\n# Title\nWörds\n\n# [code 2]\nimport math\nrate = 0.5\nprint(\"rate\", rate)\n\n\
         # [code 3]\n\n"
    );
    assert_eq!(book.outputs(), [CellOutput { line: 8, texts: vec!["0.5\n".to_owned()] }]);
    assert_eq!(book.view().lines().nth(7), Some("print(\"rate\", rate)"));
    for text in ["{}", "not JSON", "{\"cells\": [1]}", "{\"cells\": 1}", "[]"] {
        assert!(NotebookText::parse(text).is_none(), "{text}");
    }
}

#[test]
fn an_edit_of_a_cell_leaves_every_other_byte() {
    for (old, new, from, to) in [
        (
            "import math",
            "import math\nimport os",
            r#""import math\n","#,
            "\"import math\\n\",\n    \"import os\\n\",",
        ),
        ("rate\", rate", "r\", 1", r#""print(\"rate\", rate)""#, r#""print(\"r\", 1)""#),
        ("import math\nrate", "rate", "    \"import math\\n\",\n", ""),
        ("Title", "Tïtle", r"# Title\nW\u00f6rds", r"# T\u00eftle\nW\u00f6rds"),
        ("rate)\n", "rate)\n\n", "rate)\"", "rate)\\n\""),
        (
            "# [code 3]\n\n",
            "# [code 3]\nx = \"\\t\"\ny\n",
            r#""source": []"#,
            "\"source\": [\n    \"x = \\\"\\\\t\\\"\\n\",\n    \"y\"\n   ]",
        ),
        (
            "import math\nrate = 0.5\nprint(\"rate\", rate)\n",
            "\n",
            "[\n    \"import math\\n\",\n    \"rate = 0.5\\n\",\n    \"print(\\\"rate\\\", rate)\"\n   ]",
            "[]",
        ),
    ] {
        let json = edited(BOOK, old, new).unwrap();
        assert_eq!(json, BOOK.replacen(from, to, 1), "{old:?} {new:?}");
        check_notebook(&json).unwrap();
    }
}

#[test]
fn cells_come_and_go() {
    let json = edited(
        BOOK,
        "rate)\n\n# [code 3]",
        "rate)\n\n# [markdown]\nNéw\n\n# [code]\nz\n\n# [code 3]",
    )
    .unwrap();
    check_notebook(&json).unwrap();
    let book = NotebookText::parse(&json).unwrap();
    assert!(
        book.view().contains("# [markdown 3]\nNéw\n\n# [code 4]\nz\n\n# [code 5]\n"),
        "{}",
        book.view()
    );
    let at = json.find("  {\n   \"cell_type\": \"markdown\",\n   \"id\": \"").unwrap();
    let at = at + json[at + 5..].find("  {\n   \"cell_type\": \"markdown\"").unwrap() + 5;
    let (before, rest) = (&json[..at], &json[at..]);
    assert!(BOOK.starts_with(before), "{before}");
    assert!(rest.contains("\"source\": [\n    \"N\\u00e9w\"\n   ]\n  },\n  {\n   \"cell_type\": \"code\",\n   \"execution_count\": null"), "{rest}");
    assert!(BOOK.ends_with(&rest[rest.find(",\n  {\n   \"cell_type\": \"code\",\n   \"execution_count\": null,\n   \"id\": \"cc\"").unwrap()..]));
    // The same edit names its cells the same.
    assert_eq!(
        edited(BOOK, "# [code 3]", "# [code]\na\n\n# [code 3]"),
        edited(BOOK, "# [code 3]", "# [code]\na\n\n# [code 3]")
    );
    let twins = edited(BOOK, "# [code 3]", "# [code]\na\n\n# [code]\na\n\n# [code 3]").unwrap();
    check_notebook(&twins).unwrap();
    let fewer =
        edited(BOOK, "# [code 2]\nimport math\nrate = 0.5\nprint(\"rate\", rate)\n\n", "").unwrap();
    let start = BOOK.find("  {\n   \"cell_type\": \"code\"").unwrap();
    let end = start
        + BOOK[start..]
            .find("  {\n   \"cell_type\": \"code\",\n   \"execution_count\": null")
            .unwrap();
    assert_eq!(fewer, format!("{}{}", &BOOK[..start], &BOOK[end..]));
    let none = edited(&fewer, "# [markdown 1]\n# Title\nWörds\n\n# [code 2]\n\n", "").unwrap();
    check_notebook(&none).unwrap();
    // Into a notebook without cells.
    let book = NotebookText::parse(&none).unwrap();
    let mut view = LinedText::split(book.view());
    view.replace(0..0, "# [code]\n1\n", false);
    check_notebook(&book.with_view(&view).unwrap()).unwrap();
}

#[test]
fn what_would_mix_cells_is_refused() {
    let fault = edited(BOOK, "Wörds\n\n# [code 2]\nimport math", "Wörds and more").unwrap_err();
    assert!(fault.to_string().contains("header of cell 2"), "{fault}");
    let fault = edited(BOOK, "# [markdown 1]\n", "").unwrap_err();
    assert!(fault.to_string().contains("before its first cell"), "{fault}");
    let fault = edited(BOOK, "# [code 3]", "# [code 2]").unwrap_err();
    assert!(fault.to_string().contains("two cells 2"), "{fault}");
    let odd = BOOK.replace("# Title", "# [code 7]");
    let fault = edited(&odd, "rate = 0.5", "rate = 1").unwrap_err();
    assert!(fault.to_string().contains("look like the headers"), "{fault}");
}

#[test]
fn other_layouts_are_kept() {
    let compact = r#"{"cells":[{"cell_type":"code","execution_count":null,"metadata":{},"outputs":[],"source":["a\n","b"]}],"metadata":{},"nbformat":4,"nbformat_minor":2}"#;
    assert_eq!(
        edited(compact, "a", "x\na").unwrap(),
        compact.replace(r#""a\n""#, r#""x\n","a\n""#)
    );
    check_notebook(&edited(compact, "b\n", "b\n\n# [code]\nc\n").unwrap()).unwrap();
    let old = r#"{"metadata": {}, "nbformat": 3, "nbformat_minor": 0, "worksheets": [{"cells": [
      {"cell_type": "heading", "level": 1, "metadata": {}, "source": ["Top"]},
      {"cell_type": "code", "collapsed": false, "input": ["a\n", "b"], "language": "python", "metadata": {}, "outputs": []}
    ], "metadata": {}}]}"#;
    check_notebook(old).unwrap();
    assert_eq!(edited(old, "b\n", "c\n").unwrap(), old.replace("\"b\"", "\"c\""));
    check_notebook(&edited(old, "b\n", "b\n\n# [code]\nc\n").unwrap()).unwrap();
    // Pieces of several lines, and both ways to write a character in one line.
    let odd = compact.replace(r#"["a\n","b"]"#, r#"["a\nb\n","\u00e9 = 1 é\n","c\nd"]"#);
    assert_eq!(edited(&odd, "= 1", "= 2").unwrap(), odd.replace("1 é", "2 é"));
    let crlf = BOOK.replace('\n', "\r\n");
    assert_eq!(edited(&crlf, "0.5", "1").unwrap(), crlf.replacen("rate = 0.5", "rate = 1", 1));
}

#[test]
fn a_notebook_that_jupyter_refuses_is_known() {
    for (from, to, why) in [
        ("\"outputs\": [],", "", "`outputs`"),
        ("\"execution_count\": null,", "", "`execution_count`"),
        ("\"cc\"", "\"bb\"", "`id`"),
        ("\"nbformat\": 4,", "", "`nbformat`"),
        ("\"cell_type\": \"markdown\"", "\"cell_type\": \"text\"", "`cell_type`"),
        ("\"source\": []", "\"source\": [1]", "`source`"),
        (" }\n", "", "JSON"),
    ] {
        let fault = check_notebook(&BOOK.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(fault.contains(why), "{why}: {fault}");
    }
}

#[test]
fn numbers_that_only_python_writes_are_kept_in_a_notebook() {
    for odd in ["NaN", "Infinity", "-Infinity"] {
        let book = BOOK.replacen("[ \"x\" ]", &format!("[ \"NaN, Infinity\", {odd} ]"), 1);
        assert_ne!(book, BOOK);
        let changed = edited(&book, "0.5", "1").unwrap();
        assert_eq!(changed, book.replacen("rate = 0.5", "rate = 1", 1));
        check_notebook(&book).unwrap();
        assert!(!NotebookText::parse(&book).unwrap().outputs().is_empty());
        assert!(edited(&book, "rate = 0.5\n", "rate = 1\n\n# [code]\nx\n").unwrap().contains(odd));
        let broken = compare_syntax(SyntaxKind::Notebook, &book, &book.replacen(']', "", 1));
        assert!(broken.is_some(), "{odd}");
        assert_eq!(compare_syntax(SyntaxKind::Notebook, BOOK, &book), None);
    }
    let nan = |text: &str| NotebookText::parse(&BOOK.replacen("\"x\"", text, 1)).is_some();
    assert!(!nan("NaNx") && !nan("xNaN") && !nan("-NaN") && !nan("+Infinity") && !nan("1NaN"));
}
