//! Drives a browser through a pipe, with JSON messages that each end with a zero byte. So no port
//! is opened.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::Folder;

const ANSWER_WITHIN: Duration = Duration::from_secs(60);
const END_WITHIN: Duration = Duration::from_secs(5);
const WIDTH_PX: u32 = 1440;
const HEIGHT_PX: u32 = 900;

/// A browser with one page. Dropping it ends the browser.
pub struct Chromium {
    browser: Child,
    commands: ChildStdin,
    messages: Receiver<Value>,
    /// Events of the page that arrived while waiting for answers.
    events: Vec<Value>,
    last_id: u64,
    session_id: Option<String>,
    /// The profile. It is removed together with the browser.
    _profile: Folder,
}

impl Chromium {
    /// Starts the browser named by `CHROMIUM`, or `chromium`.
    pub fn start() -> Self {
        let program = std::env::var("CHROMIUM").unwrap_or_else(|_| "chromium".to_owned());
        let profile = Folder::empty();
        // The browser reads from descriptor 3 and writes to descriptor 4. The shell connects our
        // pipes to these.
        let mut browser = Command::new("sh")
            .args([
                "-c",
                r#"exec "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#,
                "sh",
            ])
            .arg(&program)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--remote-debugging-pipe",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let commands = browser.stdin.take().unwrap();
        let answers = BufReader::new(browser.stdout.take().unwrap());
        let (send, messages) = mpsc::channel();
        std::thread::spawn(move || {
            for message in answers.split(0) {
                let Ok(message) = message else { break };
                let message = serde_json::from_slice(&message).unwrap();
                if send.send(message).is_err() {
                    break;
                }
            }
        });
        let mut chromium = Self {
            browser,
            commands,
            messages,
            events: Vec::new(),
            last_id: 0,
            session_id: None,
            _profile: profile,
        };
        chromium.attach();
        chromium
    }

    fn attach(&mut self) {
        let targets = self.call("Target.getTargets", json!({}));
        let targets = targets["targetInfos"].as_array().unwrap();
        let page = targets
            .iter()
            .find(|target| target["type"] == "page")
            .unwrap();
        let parameters = json!({ "targetId": page["targetId"], "flatten": true });
        let attached = self.call("Target.attachToTarget", parameters);
        self.session_id = Some(attached["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Runtime", "Log", "Network", "Page"] {
            self.call(&format!("{domain}.enable"), json!({}));
        }
        let metrics = json!({
            "width": WIDTH_PX, "height": HEIGHT_PX, "deviceScaleFactor": 1, "mobile": false,
        });
        self.call("Emulation.setDeviceMetricsOverride", metrics);
    }

    /// Calls a method of the browser, or of the page once there is one.
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.last_id += 1;
        let id = self.last_id;
        let mut message = json!({ "id": id, "method": method, "params": parameters });
        if let Some(session_id) = &self.session_id {
            message["sessionId"] = json!(session_id);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.commands
            .write_all(&bytes)
            .expect("the browser runs: is chromium installed? see ci/view.sh");
        let deadline = Instant::now() + ANSWER_WITHIN;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let message = self.messages.recv_timeout(left);
            let mut message = message.unwrap_or_else(|error| panic!("{method}: {error}"));
            if message["id"] == json!(id) {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].take();
            }
            self.events.push(message);
        }
    }

    /// Opens a file and waits until its trace is shown.
    pub fn open(&mut self, page: &Path) {
        self.call(
            "Page.navigate",
            json!({ "url": format!("file://{}", page.display()) }),
        );
        let deadline = Instant::now() + ANSWER_WITHIN;
        while self.evaluate("document.readyState === 'complete' && 'tracezeroView' in window")
            != true
        {
            assert!(Instant::now() < deadline, "the page does not load");
            std::thread::sleep(Duration::from_millis(20));
        }
        self.evaluate("tracezeroView.then((view) => { window.view = view; return true; })");
        self.settle();
    }

    /// Returns the value of an expression in the page.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let parameters =
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let mut answer = self.call("Runtime.evaluate", parameters);
        let thrown = &answer["exceptionDetails"];
        assert!(thrown.is_null(), "{expression}: {thrown}");
        answer["result"]["value"].take()
    }

    /// Waits until animations have ended and frames are drawn.
    pub fn settle(&mut self) {
        self.evaluate(
            "new Promise((done) => setTimeout(() => requestAnimationFrame(() => done(true)), 350))",
        );
    }

    /// Presses and releases a key, as a keyboard does.
    pub fn key(&mut self, key: &str, shift: bool) {
        let modifiers = if shift { 8 } else { 0 };
        let mut down = json!({ "type": "keyDown", "key": key, "modifiers": modifiers });
        if key.chars().count() == 1 {
            down["text"] = json!(key);
        }
        self.call("Input.dispatchKeyEvent", down);
        let up = json!({ "type": "keyUp", "key": key, "modifiers": modifiers });
        self.call("Input.dispatchKeyEvent", up);
    }

    /// Types a text into the focused element.
    pub fn type_text(&mut self, text: &str) {
        for letter in text.chars() {
            self.key(&letter.to_string(), false);
        }
    }

    /// Turns the wheel at a point: away from the user if `delta_y` is negative.
    pub fn wheel(&mut self, x: f64, y: f64, delta_y: f64) {
        let parameters =
            json!({ "type": "mouseWheel", "x": x, "y": y, "deltaX": 0, "deltaY": delta_y });
        self.call("Input.dispatchMouseEvent", parameters);
    }

    /// Presses and releases the button of the mouse.
    pub fn click(&mut self, x: f64, y: f64) {
        for kind in ["mousePressed", "mouseReleased"] {
            let parameters =
                json!({ "type": kind, "x": x, "y": y, "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", parameters);
        }
    }

    /// Presses the mouse at one point and releases it at another, with the keys of `modifiers`.
    pub fn drag(&mut self, from: (f64, f64), to: (f64, f64), modifiers: u32) {
        let steps = [
            ("mousePressed", from),
            ("mouseMoved", to),
            ("mouseReleased", to),
        ];
        for (kind, (x, y)) in steps {
            let parameters = json!({
                "type": kind, "x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1,
                "modifiers": modifiers,
            });
            self.call("Input.dispatchMouseEvent", parameters);
        }
    }

    /// Sets the color scheme of the system: light or dark.
    pub fn set_color_scheme(&mut self, scheme: &str) {
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.call(
            "Emulation.setEmulatedMedia",
            json!({ "features": [feature] }),
        );
        self.settle();
    }

    /// Saves a screenshot of the page as PNG, among the files of the build. Returns its path.
    pub fn screenshot(&mut self, name: &str) -> PathBuf {
        let picture = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let bytes = bytes_of_base64(picture["data"].as_str().unwrap());
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// Returns errors and warnings of the page, and addresses that it requested.
    pub fn complaints(&self) -> Vec<String> {
        let complaint = |event: &Value| {
            let parameters = &event["params"];
            match event["method"].as_str()? {
                "Runtime.exceptionThrown" | "Log.entryAdded" => Some(parameters.to_string()),
                "Runtime.consoleAPICalled" => Some(parameters["args"].to_string()),
                "Network.requestWillBeSent" if parameters["type"] != "Document" => {
                    Some(parameters["request"]["url"].to_string())
                }
                _ => None,
            }
        };
        self.events.iter().filter_map(complaint).collect()
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        let _ = self
            .commands
            .write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        let deadline = Instant::now() + END_WITHIN;
        while Instant::now() < deadline {
            if !matches!(self.browser.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        // The browser has not closed itself in time.
        let _ = self.browser.kill();
        let _ = self.browser.wait();
    }
}

fn bytes_of_base64(text: &str) -> Vec<u8> {
    let value_of = |letter: u8| match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let letters = text.trim_end_matches('=').as_bytes();
    let mut bytes = Vec::with_capacity(letters.len() * 3 / 4);
    for group in letters.chunks(4) {
        let bits = group.iter().fold(0_u32, |bits, &letter| {
            bits << 6 | u32::from(value_of(letter))
        });
        let bits = bits << (6 * (4 - group.len()));
        bytes.extend_from_slice(&bits.to_be_bytes()[1..group.len()]);
    }
    bytes
}
