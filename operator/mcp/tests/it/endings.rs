//! Servers that end in the middle.

use std::time::{Duration, Instant};

use codebutler_mcp::{McpError, ServerLink, SessionSetup, ToolCall};
use tokio::io::AsyncWriteExt as _;

use super::scripted::{Next, open, start};

#[tokio::test]
async fn a_server_that_dies_in_a_call_is_noticed_at_once() {
    let link =
        start(|message, _| if message["method"] == "tools/call" { Next::End } else { Next::GoOn });
    let ServerLink::Pipe { reader, writer, .. } = link else { panic!() };
    // The reason on standard error comes after the server's end.
    let (mut stderr, errors) = tokio::io::duplex(1000);
    tokio::spawn(async move {
        stderr.write_all(b"server is ready\n").await.unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
        stderr.write_all(b"out of memory").await.unwrap();
    });
    let link = ServerLink::Pipe { reader, writer, errors: Some(Box::new(errors)) };
    let mut setup = SessionSetup { client_name: "tests".into(), ..SessionSetup::default() };
    setup.limits.call_idle = Duration::from_mins(1);
    let (session, mut events) = open(link, setup).await;
    let call = || ToolCall { name: "x".into(), ..ToolCall::default() };
    let begun = Instant::now();
    let closed = McpError::Closed { said: ": server is ready / out of memory".into() };
    assert_eq!(session.call_tool(call()).await, Err(closed.clone()));
    while events.next().await.is_some() {}
    assert_eq!(session.call_tool(call()).await, Err(closed));
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}
