/** Project-specific rules for oxlint. */

/**
 * Forbids `{ ...{ a, b } }`. TypeScript does not check the members of a spread literal against the expected type, so
 * code with a misspelled optional member compiles.
 */
const noSpreadLiteral = {
  create: context => ({
    SpreadElement(node) {
      if (node.argument.type === 'ObjectExpression' && node.parent.type === 'ObjectExpression')
        context.report({ node, message: 'Write the members of the literal out instead of spreading it.' })
    },
  }),
}

export default { meta: { name: 'mote' }, rules: { 'no-spread-literal': noSpreadLiteral } }
