/** Names of the sweeps that other transactions poke. */
export const sweepName = 'domains'
export const certificateSweepName = 'certificates'
