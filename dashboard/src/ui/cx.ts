/** Class names that are there. */
export const cx = (...names: readonly (string | false | undefined)[]) => names.filter(Boolean).join(' ')
