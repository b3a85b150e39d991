//! The context that a trace point gets for each session that records its data source.

use std::fmt;
use std::marker::PhantomData;

use super::{DataSource, LocalState};
use crate::instance::Instance;
use tracezero_core::clock;
use tracezero_core::coordination::PacketCounts;
use tracezero_core::protos::TracePacket;
use tracezero_core::protos::trace_packet::SequenceFlags;

/// A data source in one session, at one trace point. Writes packets.
pub struct TraceContext<'t, D> {
    instance: &'t mut Instance,
    data_source: PhantomData<fn() -> D>,
}

impl<'t, D: DataSource> TraceContext<'t, D> {
    /// Creates the context; `instance` must belong to `D`.
    #[inline]
    pub(super) fn new(instance: &'t mut Instance) -> Self {
        Self {
            instance,
            data_source: PhantomData,
        }
    }

    /// Writes one packet. The trace gets the whole packet or nothing of it.
    #[inline]
    pub fn packet<R>(&mut self, write: impl FnOnce(&mut TracePacket<'_>) -> R) -> R {
        self.instance.writer.trace_packet(write)
    }

    /// Writes one packet that may build on earlier packets of this thread, for example on names
    /// that were sent once and are numbers from then on.
    ///
    /// The state is your record of what readers know from these packets. It starts with its default
    /// value. When earlier packets may be missing, it starts again with its default: after a loss,
    /// when a ring buffer has overwritten enough, and when the service asks for it. The packet's
    /// `sequence_flags` tell readers where the state starts.
    ///
    /// ```
    /// use tracezero::{DataSource, InMemorySession, Setup};
    ///
    /// struct Requests;
    ///
    /// impl DataSource for Requests {
    ///     const NAME: &'static str = "com.example.requests";
    ///     type ThreadState = ();
    ///     /// The last number that readers know.
    ///     type IncrementalState = u32;
    ///     tracezero::data_source_state!(Requests);
    ///
    ///     fn on_setup(_: &Setup<'_>) -> Self {
    ///         Self
    ///     }
    /// }
    ///
    /// fn record(number: u32) {
    ///     Requests::trace(|cx| {
    ///         cx.incremental_packet(|packet, last| {
    ///             packet.for_testing(|event| {
    ///                 event.set_seq_value(number.wrapping_sub(*last));
    ///             });
    ///             *last = number;
    ///         });
    ///     });
    /// }
    ///
    /// let session = InMemorySession::start()?;
    /// record(7_000_000);
    /// record(7_000_001);
    /// assert_eq!(session.finish().1.data_packets, 2);
    /// # Ok::<(), tracezero::Error>(())
    /// ```
    #[inline]
    pub fn incremental_packet<R>(
        &mut self,
        write: impl FnOnce(&mut TracePacket<'_>, &mut D::IncrementalState) -> R,
    ) -> R {
        let (writer, local) = self.instance.split::<LocalState<D>>();
        let (state, is_first) = local.incremental.for_packet(writer);
        let flags = if is_first {
            SequenceFlags::SEQ_INCREMENTAL_STATE_CLEARED
        } else {
            SequenceFlags::SEQ_NEEDS_INCREMENTAL_STATE
        };
        writer.trace_packet(|packet| {
            packet.set_sequence_flags(flags.0 as u32);
            write(packet, state)
        })
    }

    /// Returns the state that the next [`TraceContext::incremental_packet`] builds on, unless the
    /// state has to start again before that.
    #[inline]
    pub fn incremental_state(&mut self) -> &mut D::IncrementalState {
        let (writer, local) = self.instance.split::<LocalState<D>>();
        local.incremental.current(writer)
    }

    /// Returns the instance that [`DataSource::on_setup`] created for the session.
    #[inline]
    #[must_use]
    pub fn instance(&self) -> &D {
        &self.instance.local::<LocalState<D>>().instance
    }

    /// Returns this thread's own state for this instance. It starts with its default value, and is
    /// dropped with the instance or the thread.
    #[inline]
    pub fn thread_state(&mut self) -> &mut D::ThreadState {
        let (_, local) = self.instance.split::<LocalState<D>>();
        local.thread.get_or_insert_default()
    }

    /// Returns the time on the trace clock in nanoseconds, for [`TracePacket::set_timestamp`].
    #[inline]
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        clock::now_ns()
    }

    /// Commits all packets that this thread has written for this instance. Rarely needed: sessions
    /// do this when they flush or end.
    pub fn flush(&mut self) {
        self.instance.writer.flush();
    }

    /// Returns the counts of packets that this thread has written or dropped for this instance. A
    /// packet that is lost later, in the service, still counts as written.
    #[must_use]
    pub fn packet_counts(&self) -> PacketCounts {
        self.instance.writer.packet_counts()
    }

    /// Returns the number of packets of this thread and instance that were dropped because the
    /// shared memory was full.
    #[must_use]
    pub fn drop_count(&self) -> u64 {
        self.packet_counts().packets_dropped
    }
}

impl<D> fmt::Debug for TraceContext<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceContext").finish_non_exhaustive()
    }
}
