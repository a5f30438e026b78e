/** The time span of charts, in seconds. */
export const windowSeconds = 300
