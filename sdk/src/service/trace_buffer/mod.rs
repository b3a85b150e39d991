//! The central ring that receives chunks and hands back whole packets.
