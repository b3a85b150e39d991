//! Tells dependents where the SDK's schema is.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let protos = std::env::var("DEP_TRACEZERO_CORE_PROTOS")?;
    // The include path for schemas that extend ours: dependents see it as `DEP_TRACEZERO_PROTOS`.
    println!("cargo::metadata=protos={protos}");
    println!("cargo::rerun-if-changed=build.rs");
    Ok(())
}
