//! The port on which Prometheus may fetch the metrics: `GET /metrics` and nothing else, on loopback alone.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::export::{Family, Flavour, write_metrics};

/// Bytes of a request's head at most.
const HEAD_BYTES: usize = 8192;
/// How long one scrape may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pause after a client that could not be let in.
const PAUSE: Duration = Duration::from_millis(20);
/// Scrapes at once.
const SCRAPERS: usize = 8;

static INSIDE: AtomicUsize = AtomicUsize::new(0);

/// Takes the port.
pub(super) async fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// The next client; never one where there is no port.
pub(super) async fn next(listener: Option<&TcpListener>) -> Option<TcpStream> {
    match listener {
        Some(listener) => match listener.accept().await {
            Ok((stream, _)) => Some(stream),
            Err(_) => {
                // No descriptors are left, for instance: asking again at once would only cost.
                tokio::time::sleep(PAUSE).await;
                None
            }
        },
        None => std::future::pending().await,
    }
}

/// Answers a client with these metrics.
pub(super) fn answer(client: Option<TcpStream>, families: Vec<Family>) {
    let Some(mut client) = client else { return };
    if INSIDE.fetch_add(1, Ordering::Relaxed) >= SCRAPERS {
        INSIDE.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    tokio::spawn(async move {
        let _ = timeout(PATIENCE, converse(&mut client, &families)).await;
        INSIDE.fetch_sub(1, Ordering::Relaxed);
    });
}

async fn converse(client: &mut TcpStream, families: &[Family]) -> std::io::Result<()> {
    let mut head = Vec::new();
    let mut buffer = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < HEAD_BYTES {
        match client.read(&mut buffer).await? {
            0 => return Ok(()),
            count => head.extend_from_slice(&buffer[..count]),
        }
    }
    client.write_all(&response(&String::from_utf8_lossy(&head), families)).await?;
    client.shutdown().await
}

fn response(head: &str, families: &[Family]) -> Vec<u8> {
    let line = head.lines().next().unwrap_or_default();
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split('?').next().unwrap_or_default();
    if !["GET", "HEAD"].contains(&method) || path != "/metrics" {
        let status = if path == "/metrics" { "405 Method Not Allowed" } else { "404 Not Found" };
        let text = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        return text.into_bytes();
    }
    let accepts = head.lines().any(|line| {
        let lower = line.to_ascii_lowercase();
        lower.starts_with("accept:") && lower.contains("application/openmetrics-text")
    });
    let flavour = if accepts { Flavour::OpenMetrics } else { Flavour::Prometheus };
    let mut body = Vec::new();
    let _ = write_metrics(&mut body, flavour, families);
    let (length, kind) = (body.len(), flavour.content_type());
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    let mut bytes = head.into_bytes();
    if method == "GET" {
        bytes.extend(body);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::MetricKind;

    fn text(head: &str) -> String {
        let families = [Family::single("dlrun_x", "", MetricKind::Gauge, 2.0, "X.")];
        String::from_utf8(response(head, &families)).expect("text")
    }

    #[test]
    fn metrics_come_in_the_wanted_flavour_and_nothing_else_comes() {
        let plain = text("GET /metrics HTTP/1.1\r\n\r\n");
        assert!(
            plain.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain")
                && plain.ends_with("dlrun_x 2\n")
        );
        let open =
            text("GET /metrics?x HTTP/1.1\r\nAccept: application/openmetrics-text; version=1.0.0\r\n\r\n");
        assert!(open.contains("application/openmetrics-text") && open.ends_with("# EOF\n"));
        assert!(text("HEAD /metrics HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n"));
        for (head, status) in
            [("POST /metrics", "405"), ("GET /", "404"), ("GET /etc/passwd", "404"), ("", "404")]
        {
            assert!(text(head).starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
        }
    }
}
