/** Poked from the transactions that give them something to do. */
export const sweepName = 'domains'
export const certificateSweepName = 'certificates'
