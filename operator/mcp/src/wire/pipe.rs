//! A server behind a pair of byte streams, one message a line: a child process, or a pod's bridge.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::intake::{Intake, in_sdk_form};
use super::repair::too_large;
use crate::events::EventSink;
use codebutler_mcp_file::clean_text;

/// Messages between the tasks of a pipe and the session.
const BUFFERED: usize = 64;
/// Bytes of an oversized line's end that are kept, to find its id.
const TAIL: usize = 4096;

type Outgoing = (Vec<u8>, oneshot::Sender<io::Result<()>>);

pub(crate) struct PipeTransport {
    intake: Arc<Intake>,
    incoming: mpsc::Receiver<ServerJsonRpcMessage>,
    outgoing: Option<mpsc::Sender<Outgoing>>,
    _stop: DropGuard,
}

impl PipeTransport {
    /// Reads and writes in two tasks of their own: neither a future that is dropped half-way nor a server that does
    /// not read can break a line in two.
    pub(crate) fn start<R, W>(
        reader: R,
        writer: W,
        intake: Arc<Intake>,
        message_bytes: usize,
    ) -> Self
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        intake.is_heard.store(true, Ordering::SeqCst);
        let stop = CancellationToken::new();
        let (sender, incoming) = mpsc::channel(BUFFERED);
        let (outgoing, receiver) = mpsc::channel(BUFFERED);
        let (read_stop, write_stop) = (stop.clone(), stop.clone());
        let reading = read_lines(reader, Arc::clone(&intake), message_bytes, sender);
        tokio::spawn(async move {
            let _ = read_stop.run_until_cancelled(reading).await;
        });
        tokio::spawn(async move {
            let _ = write_stop.run_until_cancelled(write_lines(writer, receiver)).await;
        });
        Self { intake, incoming, outgoing: Some(outgoing), _stop: stop.drop_guard() }
    }
}

impl Transport<RoleClient> for PipeTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        item: ClientJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.intake.note_sent(&item);
        let outgoing = self.outgoing.clone();
        async move {
            let outgoing = outgoing.ok_or(io::ErrorKind::BrokenPipe)?;
            let mut line = serde_json::to_vec(&item)?;
            line.push(b'\n');
            let (done, written) = oneshot::channel();
            outgoing.send((line, done)).await.map_err(|_| io::ErrorKind::BrokenPipe)?;
            written.await.map_err(|_| io::ErrorKind::BrokenPipe)?
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        self.incoming.recv().await
    }

    async fn close(&mut self) -> io::Result<()> {
        // The end of its input is what ends a server of this kind.
        self.outgoing = None;
        Ok(())
    }
}

async fn write_lines<W: AsyncWrite + Unpin>(mut writer: W, mut lines: mpsc::Receiver<Outgoing>) {
    while let Some((line, done)) = lines.recv().await {
        let written = async {
            writer.write_all(&line).await?;
            writer.flush().await
        };
        let written = written.await;
        let is_broken = written.is_err();
        let _ = done.send(written);
        if is_broken {
            return;
        }
    }
    let _ = writer.shutdown().await;
}

async fn read_lines<R: AsyncRead + Unpin>(
    mut reader: R,
    intake: Arc<Intake>,
    message_bytes: usize,
    sender: mpsc::Sender<ServerJsonRpcMessage>,
) {
    let mut lines = LineBuffer::new(message_bytes);
    let mut chunk = vec![0; 64 << 10];
    loop {
        let count = match reader.read(&mut chunk).await {
            // A server may end without a last line feed.
            Ok(0) | Err(_) => {
                let rest = lines.finish(&intake);
                let _ = pass_on(rest, &sender).await;
                return intake.events.close();
            }
            Ok(count) => count,
        };
        for message in lines.push(&chunk[..count], &intake) {
            if pass_on(vec![message], &sender).await.is_err() {
                return;
            }
        }
    }
}

/// Reads standard error to its end, line by line; of a long line only the beginning is kept.
pub(crate) fn read_error_lines(
    mut errors: Box<dyn AsyncRead + Send + Unpin>,
    events: &EventSink,
) -> JoinHandle<()> {
    let events = events.clone();
    tokio::spawn(async move {
        let (mut chunk, mut line) = (vec![0; 8 << 10], Vec::new());
        while let Ok(count @ 1..) = errors.read(&mut chunk).await {
            for byte in &chunk[..count] {
                match byte {
                    b'\n' => put_error_line(&events, &mut line),
                    byte if line.len() < TAIL => line.push(*byte),
                    _ => {}
                }
            }
        }
        put_error_line(&events, &mut line);
    })
}

fn put_error_line(events: &EventSink, line: &mut Vec<u8>) {
    let text = clean_text(&String::from_utf8_lossy(line));
    line.clear();
    if !text.trim().is_empty() {
        events.put_error_line(&text);
    }
}

async fn pass_on(
    messages: Vec<Value>,
    sender: &mpsc::Sender<ServerJsonRpcMessage>,
) -> Result<(), mpsc::error::SendError<ServerJsonRpcMessage>> {
    for message in messages {
        if let Some(message) = in_sdk_form(message) {
            sender.send(message).await?;
        }
    }
    Ok(())
}

/// Cuts bytes into lines; one that is too long is skipped, but answered for.
struct LineBuffer {
    limit: usize,
    line: Vec<u8>,
    /// End of a line that is too long, with `line` as its beginning.
    tail: Option<Vec<u8>>,
}

impl LineBuffer {
    fn new(limit: usize) -> Self {
        Self { limit, line: Vec::new(), tail: None }
    }

    fn push(&mut self, mut bytes: &[u8], intake: &Intake) -> Vec<Value> {
        let mut messages = Vec::new();
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.extend(&bytes[..end]);
            bytes = &bytes[end + 1..];
            messages.extend(self.finish(intake));
        }
        self.extend(bytes);
        messages
    }

    fn extend(&mut self, bytes: &[u8]) {
        if let Some(tail) = &mut self.tail {
            tail.extend_from_slice(bytes);
            let extra = tail.len().saturating_sub(TAIL);
            tail.drain(..extra);
            return;
        }
        self.line.extend_from_slice(bytes);
        if self.line.len() > self.limit {
            let tail = self
                .line
                .split_off(self.line.len().saturating_sub(TAIL).max(TAIL.min(self.line.len())));
            self.line.truncate(TAIL);
            self.line.shrink_to_fit();
            self.tail = Some(tail);
        }
    }

    fn finish(&mut self, intake: &Intake) -> Vec<Value> {
        let line = std::mem::take(&mut self.line);
        match self.tail.take() {
            None => intake.read(&line),
            Some(tail) => intake.read_failed(&line, &tail, &too_large(self.limit)),
        }
    }
}
