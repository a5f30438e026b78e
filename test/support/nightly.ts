/**
 * True if tests run that run only each night (.github/workflows/nightly.yml), because `npm test` has similar, faster
 * ones.
 */
export const isNightly = Boolean(process.env['MOTE_TEST_NIGHTLY'])
