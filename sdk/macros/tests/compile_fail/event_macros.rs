use tracezero::{async_span, begin, counter, end, instant, span};

fn main() {
    let category = "io";
    let _span = span!("only a name");
    let _span = span!(category, "read");
    let _span = span!(target: "io", "read");
    let _future = async_span!(category, "read");
    instant!();
    begin!("io");
    instant!("io", "read", 5);
    end!("io", "read");
    end!();
    counter!("io", "open_files");
}
