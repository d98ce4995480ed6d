extern crate xmlparser;

use xmlparser::{Token, Tokenizer};

fn kinds(text: &str) -> Vec<&'static str> {
    let mut kinds = Vec::new();
    for token in Tokenizer::from(text) {
        kinds.push(match token {
            Ok(Token::Declaration { .. }) => "declaration",
            Ok(Token::ProcessingInstruction { .. }) => "instruction",
            Ok(Token::Comment { .. }) => "comment",
            Ok(Token::EmptyDtd { .. }) => "type",
            Ok(Token::DtdStart { .. }) => "type start",
            Ok(Token::DtdEnd { .. }) => "type end",
            Ok(Token::ElementStart { .. }) => "start",
            Ok(Token::ElementEnd { .. }) => "end",
            Ok(_) => "other",
            Err(_) => "error",
        });
    }
    kinds
}

#[test]
fn an_instruction_before_the_type() {
    let text = "<?xml version='1.0'?>\n<?style href='a'?>\n<!DOCTYPE a>\n<a/>";
    assert_eq!(kinds(text), ["declaration", "instruction", "type", "start", "end"]);
}

#[test]
fn several_instructions_and_a_comment_before_a_type_with_a_subset() {
    let text = "<?one?><!-- c --><?two a?><!DOCTYPE a []><a/>";
    let expected = ["instruction", "comment", "instruction", "type start", "type end", "start", "end"];
    assert_eq!(kinds(text), expected);
}

#[test]
fn an_instruction_without_a_type() {
    assert_eq!(kinds("<?xml version='1.0'?><?one?><a/>"), ["declaration", "instruction", "start", "end"]);
}

#[test]
fn a_comment_before_the_type() {
    assert_eq!(kinds("<!-- c --><!DOCTYPE a><a/>"), ["comment", "type", "start", "end"]);
}

#[test]
fn a_type_after_the_root() {
    assert!(kinds("<a/><!DOCTYPE a>").contains(&"error"));
}

#[test]
fn two_types() {
    assert!(kinds("<!DOCTYPE a><!DOCTYPE a><a/>").contains(&"error"));
}
