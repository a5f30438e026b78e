export const sweepName = 'domains'
