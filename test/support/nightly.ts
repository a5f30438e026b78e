/**
 * True in nightly runs (.github/workflows/nightly.yml), which include tests that `npm test` replaces with similar,
 * faster ones.
 */
export const isNightly = Boolean(process.env['MOTE_TEST_NIGHTLY'])
