//! Activates triggers that sessions wait for. Connects as a producer, because daemons accept
//! triggers only from producers.

use tracezero_ipc::address::Address;
use tracezero_ipc::producer_port::{
    Introduction, Method, SERVICE, activate_triggers as request, initialize_connection,
};

use crate::error::ConsumerError;
use crate::port::{ANSWER_LIMIT, Port};

/// Activates triggers of the sessions of the daemon that listens for producers at an address. Does
/// not tell whether any session waits for them. Configurations may accept triggers of certain
/// producers only: `producer_name` is the name of the producer that this call connects.
///
/// A program that records activates triggers by its own connection: `tracezero::activate_trigger`.
///
/// ```no_run
/// use tracezero_consumer::{Address, activate_triggers};
///
/// activate_triggers(&Address::of_producers()?, "my-monitor", &["slow_request".to_owned()])?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`ConsumerError::Connect`], or if the [connection fails](ConsumerError#a-connection-that-fails).
pub fn activate_triggers(
    address: &Address,
    producer_name: &str,
    names: &[String],
) -> Result<(), ConsumerError> {
    let mut port = Port::connect(address, SERVICE)?;
    let introduction = initialize_connection(&Introduction {
        producer_name: producer_name.to_owned(),
        memory_size_bytes: 0,
        page_size_bytes: 0,
        sdk_version: concat!("tracezero ", env!("CARGO_PKG_VERSION")).to_owned(),
        takes_changes: false,
    });
    let calls = [
        (Method::InitializeConnection, introduction),
        (Method::ActivateTriggers, request(names)),
        // The reply to this request comes when the daemon has handled the triggers.
        (Method::Sync, Vec::new()),
    ];
    for (method, args) in calls {
        let asked = port.invoke(method.name(), &args, None)?;
        port.reply_within(asked, ANSWER_LIMIT)?;
    }
    Ok(())
}
