import { faultAt, type Project } from '../project.ts'
import type { Provider } from '../types.ts'

/** A CMake or Meson project. Starts its first executable. */
export const cpp: Provider = {
  name: 'cpp',
  detect: project => project.has('CMakeLists.txt') || project.has('meson.build'),
  plan: project => {
    const isCmake = project.has('CMakeLists.txt')
    return {
      framework: null,
      tools: [],
      install: [],
      build: isCmake
        ? ['cmake -B build -GNinja -DCMAKE_BUILD_TYPE=Release', 'cmake --build build']
        : ['meson setup build --buildtype=release', 'meson compile -C build'],
      start: `./build/${executableOf(project, isCmake ? 'CMakeLists.txt' : 'meson.build')}`,
      staticDir: null,
      port: null,
    }
  },
}

function executableOf(project: Project, file: string): string {
  const name = /\b(?:add_)?executable\s*\(\s*["']?([\w.${}-]+)/i.exec(project.text(file))?.[1]
  const own = /\bproject\s*\(\s*["']?([\w.-]+)/i.exec(project.text(file))?.[1]
  const found = name?.startsWith('${') ? own : name
  if (found === undefined) throw faultAt({ file, line: 1 }, 'There is no executable. Add add_executable or executable.')
  return found
}
