//! Tells dependents where the SDK's schema is, and makes the table that configurations in text form are read by.

#[cfg(feature = "text-config")]
#[path = "build/text_schema.rs"]
mod text_schema;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let protos = std::env::var("DEP_TRACEZERO_CORE_PROTOS")?;
    // The include path for schemas that extend ours: dependents see it as `DEP_TRACEZERO_PROTOS`.
    println!("cargo::metadata=protos={protos}");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed={protos}/protos");
    #[cfg(feature = "text-config")]
    text_schema::generate(&protos)?;
    Ok(())
}
