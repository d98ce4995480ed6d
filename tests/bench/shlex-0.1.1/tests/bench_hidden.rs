extern crate shlex;

fn split(text: &str) -> Option<Vec<String>> {
    shlex::split(text)
}

fn words(list: &[&str]) -> Option<Vec<String>> {
    Some(list.iter().map(|word| word.to_string()).collect())
}

#[test]
fn two_backslashes_in_single_quotes() {
    assert_eq!(split(r"grep 'a\\b'"), words(&["grep", r"a\\b"]));
    assert_eq!(split(r"'\\\\'"), words(&[r"\\\\"]));
}

#[test]
fn a_quote_after_a_backslash_ends_it() {
    assert_eq!(split(r"'a\' b"), words(&[r"a\", "b"]));
    assert_eq!(split(r"echo 'it\'s'"), None);
}

#[test]
fn one_backslash_in_single_quotes() {
    assert_eq!(split(r"'a\nb'"), words(&[r"a\nb"]));
    assert_eq!(split(r"'baz\$b'"), words(&[r"baz\$b"]));
}

#[test]
fn double_quotes() {
    assert_eq!(split(r#""a\\b" "\"c\"""#), words(&[r"a\b", "\"c\""]));
    assert_eq!(split(r#""it's""#), words(&["it's"]));
}

#[test]
fn no_quotes() {
    assert_eq!(split(r"a\ b c"), words(&["a b", "c"]));
    assert_eq!(split("a # c"), words(&["a"]));
}

#[test]
fn open_quotes() {
    assert_eq!(split("'a"), None);
    assert_eq!(split("\"a"), None);
    assert_eq!(split("a\\"), None);
}
