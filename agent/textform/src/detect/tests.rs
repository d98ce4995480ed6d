use encoding_rs::Encoding;

use super::*;

fn form_of(bytes: &[u8]) -> Result<String, UnfitText> {
    read_text(bytes, &FormHints::default()).map(|(form, _)| form.to_string())
}

fn legacy(label: &str, text: &str) -> Vec<u8> {
    let (bytes, _, missing) = Encoding::for_label(label.as_bytes()).unwrap().encode(text);
    assert!(!missing, "{label}");
    bytes.into_owned()
}

const TEXTS: [(&str, &str); 8] = [
    ("Shift_JIS", "これは日本語の文章です。\r\n設定ファイルを読み込みます。\r\nx = 1\r\n"),
    ("EUC-JP", "これは日本語の文章です。\n設定ファイルを読み込みます。\nx = 1\n"),
    ("GBK", "这是一个中文的配置文件。\n请不要修改下面的内容。\nx = 1\n"),
    ("Big5", "這是一個中文的設定檔案。\n請不要修改下面的內容。\nx = 1\n"),
    ("EUC-KR", "이것은 한국어 설정 파일입니다.\n아래 내용을 수정하지 마십시오.\nx = 1\n"),
    ("KOI8-R", "Это файл настроек программы.\nПожалуйста, не меняйте его.\nx = 1\n"),
    ("windows-1251", "Это файл настроек программы.\nПожалуйста, не меняйте его.\nx = 1\n"),
    ("windows-1252", "“smart” quotes – and café\nx = 1\n"),
];

#[test]
fn text_in_many_encodings_is_read_and_written_back() {
    for (label, text) in TEXTS {
        let bytes = legacy(label, text);
        let (form, read) = read_text(&bytes, &FormHints::default()).unwrap();
        assert_eq!(form.encode(&read).unwrap(), bytes, "{label}");
        assert_eq!(read, text, "{label} is taken for {form}");
    }
    assert_eq!(form_of(b"caf\xe9\nint x = 1;\n").unwrap(), "Latin-1");
    assert_eq!(form_of("café".as_bytes()).unwrap(), "UTF-8");
    assert_eq!(form_of(b"").unwrap(), "UTF-8");
    assert_eq!(form_of(b"\xef\xbb\xbf").unwrap(), "UTF-8 with byte order mark");
    assert_eq!(form_of(b"\xff\xfe").unwrap(), "UTF-16 LE with byte order mark");
    // Terminal colours are no alphabet.
    assert_eq!(form_of(b"\x1b[31mred\x1b[0m\n").unwrap(), "UTF-8");
}

#[test]
fn wide_characters_are_known_with_and_without_a_mark() {
    let wide = [
        TextEncoding::Utf16Le,
        TextEncoding::Utf16Be,
        TextEncoding::Utf32Le,
        TextEncoding::Utf32Be,
    ];
    for encoding in wide {
        for mark in [true, false] {
            let form = TextForm { encoding, mark };
            let text = "param($x)\r\nWrite-Host \"caf\u{e9} \u{1f600}\"\r\n";
            let bytes = form.encode(text).unwrap();
            assert_eq!(
                read_text(&bytes, &FormHints::default()),
                Ok((form, text.to_owned())),
                "{form}"
            );
        }
    }
}

#[test]
fn what_can_not_be_kept_is_named() {
    assert_eq!(form_of(b"\x7fELF\0\0\x01\x02").unwrap_err(), UnfitText::Binary);
    assert_eq!(form_of(b"\x89PNG\r\n\x1a\n\0\0").unwrap_err(), UnfitText::Binary);
    let broken = "# Größe\nmäßig\nx".to_owned().into_bytes();
    let broken = [&broken[..], b"\xff\n"].concat();
    assert_eq!(form_of(&broken).unwrap_err(), UnfitText::BrokenUtf8 { line: 3 });
    assert_eq!(form_of(b"\xef\xbb\xbfa\n\xe9\n").unwrap_err(), UnfitText::BrokenUtf8 { line: 2 });
    assert!(matches!(form_of(b"\xff\xfea\0b").unwrap_err(), UnfitText::BrokenWide { .. }));
    assert!(matches!(form_of(b"\xff\xfea\0\0\xd8").unwrap_err(), UnfitText::BrokenWide { .. }));
    let shifted = b"\x1b$B$3$l\x1b(B = 1\n";
    assert_eq!(
        form_of(shifted).unwrap_err(),
        UnfitText::Inexact { name: "ISO-2022-JP".to_owned() }
    );
}

#[test]
fn what_is_said_of_a_file_counts_where_its_bytes_allow_it() {
    let read = |bytes: &[u8], attribute, charset| {
        let (form, _) = read_text(bytes, &FormHints { attribute, charset }).unwrap();
        form.to_string()
    };
    assert_eq!(read(b"x = 1\n", None, None), "UTF-8");
    assert_eq!(read(b"x = 1\n", None, Some("latin1")), "Latin-1");
    assert_eq!(read(b"x = 1\n", Some("SHIFT-JIS"), Some("latin1")), "Shift_JIS");
    assert_eq!(read(b"x = 1\n", Some("UTF-16LE-BOM"), None), "UTF-8");
    assert_eq!(read("é".as_bytes(), None, Some("latin1")), "UTF-8");
    assert_eq!(read(&legacy("EUC-KR", "카"), None, None), "UTF-8");
    assert_eq!(read(&legacy("EUC-KR", "카"), Some("CP949"), None), "EUC-KR");
    assert_eq!(read(b"a\0\n\0", Some("UTF-16LE"), None), "UTF-16 LE");
    assert_eq!(read(b"<?xml version='1.0' encoding='ISO-8859-1'?>\n<a/>", None, None), "Latin-1");
    assert_eq!(read(b"<?xml version='1.0' encoding='utf-16'?>\n<a/>", None, None), "UTF-8");
    assert_eq!(read(b"#!/bin/python\n# -*- coding: koi8-r -*-\nx = 1\n", None, None), "KOI8-R");
    assert_eq!(read(b"encoding: latin-1\n", None, None), "UTF-8");
    let page = b"\n<!doctype html>\n<title>caf\xe9</title>\n<META charset='windows-1251'>\n";
    assert_eq!(read(page, None, None), "Windows-1251");
    for page in ["{% load x %}\n<meta charset=gbk>\n", "<meta content='text/html; charset=gbk'>"] {
        assert_eq!(read(page.as_bytes(), None, None), "GBK", "{page}");
    }
    for about_pages in ["PAGE = '<meta charset=gbk>'\n", "# Pages\n\n    <meta charset=latin1>\n"] {
        assert_eq!(read(about_pages.as_bytes(), None, None), "UTF-8", "{about_pages}");
    }
}

#[test]
fn a_character_that_an_encoding_lacks_is_named() {
    let (form, _) = read_text(b"caf\xe9\n", &FormHints::default()).unwrap();
    let fault = form.encode("a\nb → c").unwrap_err().to_string();
    assert_eq!(fault, "Latin-1 has no “→” (U+2192), which is in line 2 of the new text");
    assert!(form.encode("€").is_err());
    let (form, _) = read_text(b"\x93smart\x94 caf\xe9\n", &FormHints::default()).unwrap();
    assert_eq!(form.encode("€").unwrap(), b"\x80");
    assert!(form.encode("→").is_err());
}

#[test]
fn a_character_that_an_encoding_would_write_as_another_is_named() {
    for (label, text) in
        [("Shift_JIS", "価格は一円です"), ("EUC-JP", "価格は一円です"), ("ISO-2022-JP", "価格")]
    {
        let Some(encoding) = Encoding::for_label(label.as_bytes()) else { panic!("{label}") };
        let form = TextForm { encoding: TextEncoding::Legacy(encoding), mark: false };
        for odd in ["¥", "‾", "−"] {
            let new = format!("{text}\n{odd}1,000\n");
            if let Ok(bytes) = form.encode(&new) {
                assert_eq!(form.decode(&bytes).as_deref(), Some(&*new), "{label} {odd}");
            } else {
                let fault = form.encode(&new).unwrap_err();
                assert_eq!((fault.character.to_string().as_str(), fault.line), (odd, 2), "{label}");
            }
        }
        assert_eq!(form.decode(&form.encode(text).unwrap()).as_deref(), Some(text), "{label}");
    }
}

#[test]
fn whatever_is_encoded_is_read_as_the_same_text() {
    // Every character of the basic plane in every encoding that the Web knows.
    let labels = [
        "Shift_JIS",
        "EUC-JP",
        "EUC-KR",
        "Big5",
        "GBK",
        "gb18030",
        "windows-1252",
        "windows-1251",
        "KOI8-U",
        "windows-1255",
        "windows-1258",
        "windows-874",
        "macintosh",
        "x-user-defined",
        "IBM866",
        "ISO-8859-8",
    ];
    for label in labels {
        let Some(encoding) = Encoding::for_label(label.as_bytes()) else { panic!("{label}") };
        let form = TextForm { encoding: TextEncoding::Legacy(encoding), mark: false };
        for c in ('\0'..='\u{ffff}').filter(|c| !c.is_ascii_control()) {
            let text = c.to_string();
            if let Ok(bytes) = form.encode(&text) {
                assert_eq!(form.encoding.decode(&bytes).as_deref(), Some(&*text), "{label} {c:?}");
            }
        }
    }
}
