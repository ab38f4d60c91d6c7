//! The node daemon's socket with answers that a test makes up.

use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use dlrun::observe::protocol::{Decoder, Hello, Request, Response, encode};

type Answer = dyn FnMut(&Request) -> Option<Response> + Send;

/// Answers until it is dropped; then its connections are closed and its socket is gone.
pub(crate) struct Scripted {
    socket: PathBuf,
    shared: Arc<Shared>,
}

struct Shared {
    answer: Mutex<Box<Answer>>,
    connections: Mutex<Vec<UnixStream>>,
    ended: AtomicBool,
}

impl Scripted {
    /// Listens at `socket`. A greeting is answered where `answer` gives `None`; to other questions that is an end.
    pub(crate) fn start(
        socket: &Path,
        answer: impl FnMut(&Request) -> Option<Response> + Send + 'static,
    ) -> Self {
        let listener = UnixListener::bind(socket).expect("the place is free");
        let shared = Arc::new(Shared {
            answer: Mutex::new(Box::new(answer)),
            connections: Mutex::default(),
            ended: AtomicBool::new(false),
        });
        let theirs = Arc::clone(&shared);
        thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                if theirs.ended.load(Ordering::SeqCst) {
                    break;
                }
                let ours = Arc::clone(&theirs);
                let kept = connection.try_clone().expect("a descriptor");
                theirs
                    .connections
                    .lock()
                    .expect("no test panics in it")
                    .push(kept);
                thread::spawn(move || ours.serve(connection));
            }
        });
        Self {
            socket: socket.to_owned(),
            shared,
        }
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        // Wakes the listener.
        let _ = UnixStream::connect(&self.socket);
        let _ = fs::remove_file(&self.socket);
        if let Ok(connections) = self.shared.connections.lock() {
            connections
                .iter()
                .for_each(|connection| drop(connection.shutdown(Shutdown::Both)));
        }
    }
}

impl Shared {
    fn serve(&self, mut connection: UnixStream) {
        let (mut decoder, mut buffer) = (Decoder::default(), vec![0; 64 << 10]);
        loop {
            while let Ok(Some(request)) = decoder.next::<Request>() {
                let answer = self.answer.lock().expect("no test panics in it")(&request);
                let greeting =
                    matches!(request, Request::Hello(_)).then(|| Response::Hello(Hello::ours()));
                let Some(response) = answer.or(greeting) else {
                    let _ = connection.shutdown(Shutdown::Both);
                    return;
                };
                if connection
                    .write_all(&encode(&response).expect("it is short"))
                    .is_err()
                {
                    return;
                }
            }
            let wanted = decoder.wanted().unwrap_or(1).min(buffer.len());
            match connection.read(&mut buffer[..wanted]) {
                Ok(read @ 1..) => decoder.push(&buffer[..read]),
                _ => return,
            }
        }
    }
}
