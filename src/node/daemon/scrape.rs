//! The port on which Prometheus may fetch the metrics: `GET /metrics` and nothing else, on loopback alone.
//!
//! Every user of the machine can connect, so nobody holds a place: where all are taken, the oldest client gives way. A web page
//! in a user's browser can be made to ask here too, by a name that its owner's name server turns into 127.0.0.1; the name
//! that it asks for shows this.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::record::export::{Family, Flavour, write_metrics};

/// Bytes of a request's head at most.
const HEAD_BYTES: usize = 8192;
/// How long a request may take to arrive, and its answer to be taken.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pause after a client that could not be let in.
const PAUSE: Duration = Duration::from_millis(20);
/// Clients at once, and those of them for whom metrics are collected or written: a hundred runs make megabytes.
const CLIENTS: usize = 64;
const ANSWERS: usize = 8;

/// A client that has said what it wants waits here for the metrics.
pub(super) type Scraper = oneshot::Sender<Vec<Family>>;
pub(super) type Scrapers = mpsc::Receiver<Scraper>;

/// Takes the port. `hosts` are the names, beside those of the loopback interface, by which it may be asked.
pub(super) async fn open(address: SocketAddr, hosts: Vec<String>) -> std::io::Result<Scrapers> {
    let listener = TcpListener::bind(address).await?;
    let (sender, scrapers) = mpsc::channel(ANSWERS);
    tokio::spawn(let_in(listener, hosts.into(), sender));
    Ok(scrapers)
}

/// The next client that has said what it wants; never one where there is no port.
pub(super) async fn next(port: Option<&mut Scrapers>) -> Scraper {
    if let Some(port) = port
        && let Some(scraper) = port.recv().await
    {
        return scraper;
    }
    std::future::pending().await
}

async fn let_in(listener: TcpListener, hosts: Arc<[String]>, sender: mpsc::Sender<Scraper>) {
    let mut clients: VecDeque<JoinHandle<()>> = VecDeque::new();
    let answers = Arc::new(Semaphore::new(ANSWERS));
    loop {
        let Ok((client, _)) = listener.accept().await else {
            // No descriptors are left, for instance: asking again at once would only cost.
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        clients.retain(|task| !task.is_finished());
        let (hosts, sender) = (Arc::clone(&hosts), sender.clone());
        let answers = Arc::clone(&answers);
        clients.push_back(tokio::spawn(async move {
            let _ = serve(client, &hosts, &sender, &answers).await;
        }));
        if clients.len() > CLIENTS
            && let Some(oldest) = clients.pop_front()
        {
            oldest.abort();
        }
        // The request of this one is read before the next one comes.
        tokio::task::yield_now().await;
    }
}

async fn serve(
    mut client: TcpStream,
    hosts: &[String],
    sender: &mpsc::Sender<Scraper>,
    answers: &Semaphore,
) -> Option<()> {
    let head = timeout(PATIENCE, read_head(&mut client)).await.ok()??;
    let _place = answers.acquire().await.ok()?;
    let (scraper, families) = oneshot::channel();
    sender.send(scraper).await.ok()?;
    let response = response(&head, hosts, &families.await.ok()?);
    let written = async {
        client.write_all(&response).await.ok()?;
        client.shutdown().await.ok()
    };
    timeout(PATIENCE, written).await.ok()?
}

async fn read_head(client: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut buffer = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < HEAD_BYTES {
        match client.read(&mut buffer).await.ok()? {
            0 => return None,
            count => head.extend_from_slice(&buffer[..count]),
        }
    }
    Some(String::from_utf8_lossy(&head).into_owned())
}

/// True where each `Host` of the request is this machine by a name that no name server gives to others.
fn is_for_us(head: &str, hosts: &[String]) -> bool {
    let of_line = |line: &str| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("host")
            .then(|| value.trim().to_ascii_lowercase())
    };
    head.lines().skip(1).filter_map(of_line).all(|host| {
        let bare = match host.rsplit_once(':') {
            Some((bare, port)) if port.parse::<u16>().is_ok() => bare,
            _ => &host,
        };
        let address = bare.trim_start_matches('[').trim_end_matches(']');
        let address = address.parse::<IpAddr>();
        address.is_ok_and(|address| address.is_loopback())
            || bare == "localhost"
            || hosts.iter().any(|known| known.eq_ignore_ascii_case(bare))
    })
}

fn response(head: &str, hosts: &[String], families: &[Family]) -> Vec<u8> {
    let line = head.lines().next().unwrap_or_default();
    let mut words = line.split(' ');
    let mut next = || words.next().unwrap_or_default();
    let (method, target) = (next(), next());
    let path = target.split('?').next().unwrap_or_default();
    let refused = if !is_for_us(head, hosts) {
        Some("421 Misdirected Request")
    } else if path != "/metrics" {
        Some("404 Not Found")
    } else {
        (method != "GET").then_some("405 Method Not Allowed")
    };
    if let Some(status) = refused {
        let text = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        return text.into_bytes();
    }
    let mut body = Vec::new();
    let _ = write_metrics(&mut body, Flavour::Prometheus, families);
    let (length, kind) = (body.len(), Flavour::Prometheus.content_type());
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    let mut bytes = head.into_bytes();
    bytes.extend(body);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::export::MetricKind;

    fn text(head: &str) -> String {
        let families = [Family::single("dlrun_x", "", MetricKind::Gauge, 2.0, "X.")];
        String::from_utf8(response(head, &["n1.site".to_owned()], &families)).expect("text")
    }

    #[test]
    fn only_metrics_are_served() {
        let plain = text("GET /metrics HTTP/1.1\r\n\r\n");
        assert!(
            plain.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain")
                && plain.ends_with("dlrun_x 2\n")
        );
        for (head, status) in [
            ("POST /metrics", "405"),
            ("HEAD /metrics", "405"),
            ("GET /", "404"),
            ("GET /etc/passwd", "404"),
            ("", "404"),
        ] {
            assert!(
                text(head).starts_with(&format!("HTTP/1.1 {status} ")),
                "{head}"
            );
        }
    }

    #[test]
    fn request_for_another_host_is_refused() {
        for host in [
            "localhost",
            "LOCALHOST:9477",
            "127.0.0.1:9477",
            "127.9.9.9",
            "[::1]:9477",
            "[::1]",
            "n1.site:80",
        ] {
            assert!(
                text(&format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n")).contains(" 200 "),
                "{host}"
            );
        }
        for host in [
            "evil.example",
            "evil.example:9477",
            "localhost.evil.example",
            "10.0.0.1",
            "n1",
            "",
            "127.0.0.1.evil.example",
        ] {
            let answer = text(&format!("GET /metrics HTTP/1.1\r\nhOST:{host}\r\n\r\n"));
            assert!(
                answer.starts_with("HTTP/1.1 421 ") && !answer.contains("dlrun_x"),
                "{host}"
            );
        }
        let two = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n";
        assert!(text(two).starts_with("HTTP/1.1 421 "));
    }
}
