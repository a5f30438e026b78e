/** Joins class names and skips missing ones. */
export const cx = (...names: readonly (string | false | undefined)[]) => names.filter(Boolean).join(' ')
