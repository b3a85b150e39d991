//! The attribute and the derive macro work with another path for the library. A macro of another
//! library may write the attribute.

#![deny(warnings)]

/// A library that re-exports this one.
mod vendor {
    pub use tracezero as sdk;
}

#[vendor::sdk::trace(args(n), crate = crate::vendor::sdk)]
fn plain(n: u32) -> u32 {
    n
}

#[vendor::sdk::trace("io", crate = vendor::sdk)]
async fn asynchronous(n: &str) -> Result<u32, std::num::ParseIntError> {
    n.parse()
}

macro_rules! traced {
    ($name:ident) => {
        #[vendor::sdk::trace(crate = $crate::vendor::sdk)]
        async fn $name() -> u32 {
            7
        }
    };
}
traced!(by_macro);

#[derive(vendor::sdk::ArgValue)]
#[arg_value(crate = vendor::sdk)]
pub struct Size {
    pub width: u32,
}

fn main() {
    plain(1);
    drop(asynchronous("2"));
    drop(by_macro());
}
