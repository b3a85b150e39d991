use tracezero::span;

async fn step() {}

fn spawn(_: impl Future + Send) {}

fn main() {
    spawn(async {
        let _span = span!("io", "read");
        step().await;
    });
}
