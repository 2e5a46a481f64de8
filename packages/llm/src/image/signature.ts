/** What bytes are by how they begin. It stands alone, because every start reads it. */

/** What common providers read. */
export type ImageMediaType = 'image/png' | 'image/jpeg' | 'image/gif' | 'image/webp'

/** The type alone, by the first twelve bytes. */
export function imageTypeOf(bytes: Uint8Array): ImageMediaType | undefined {
  const head = asBuffer(bytes).toString('latin1', 0, 12)
  if (head.startsWith('\x89PNG\r\n\x1a\n')) return 'image/png'
  if (head.startsWith('\xff\xd8\xff')) return 'image/jpeg'
  if (/^GIF8[79]a/.test(head)) return 'image/gif'
  if (head.startsWith('RIFF') && head.endsWith('WEBP')) return 'image/webp'
  return undefined
}

/** What else people take for a picture, by name and with what to do. The first 512 bytes are enough. */
export function otherFormatOf(bytes: Uint8Array): { readonly name: string; readonly fix: string } {
  const buffer = asBuffer(bytes)
  if (!buffer.length) return { name: 'an empty file', fix: 'check how it was made' }
  const head = buffer.toString('latin1', 0, 512)
  const other = OTHERS.find(({ at, starts }) => starts.some(start => head.startsWith(start, at)))
  if (other) return { name: other.name, fix: other.fix ?? 'convert it to PNG or JPEG' }
  // The two letters alone begin many a text; behind the size there are four bytes that are always zero.
  if (/^BM.{4}\0{4}/s.test(head)) return { name: 'a BMP picture', fix: 'convert it to PNG or JPEG' }
  const text = head.replace(/^\xef\xbb\xbf/, '').trimStart()
  if (/^<(svg[\s/>]|(\?xml|!--|!doctype svg).*<svg[\s/>])/is.test(text))
    return { name: 'an SVG drawing', fix: 'render it to PNG, or give it as text' }
  if (/^(<!doctype html|<html|<head|<body)/i.test(text))
    return { name: 'a page of HTML', fix: 'check the address it came from: this is often an error page' }
  if (!/\p{Cc}/u.test(text.replace(/[\s\x80-\xff]/g, ''))) return { name: 'a text', fix: 'give it as text' }
  return { name: 'no picture that is known here', fix: 'give a PNG, JPEG, GIF or WebP file' }
}

interface OtherFormat {
  readonly at: number
  readonly starts: readonly string[]
  readonly name: string
  readonly fix?: string
}

const OTHERS: readonly OtherFormat[] = [
  { at: 0, starts: ['II*\0', 'MM\0*', 'II+\0', 'MM\0+'], name: 'a TIFF picture' },
  { at: 4, starts: ['ftypavif', 'ftypavis'], name: 'an AVIF picture' },
  { at: 4, starts: ['ftyphei', 'ftyphev', 'ftypmif1', 'ftypmsf1'], name: 'a HEIC picture' },
  { at: 4, starts: ['ftyp'], name: 'a film', fix: 'take single frames of it as PNG or JPEG' },
  { at: 0, starts: ['\0\0\x01\0'], name: 'an ICO icon' },
  { at: 0, starts: ['\0\0\x02\0'], name: 'a CUR cursor' },
  { at: 0, starts: ['\xff\x0a', '\0\0\0\x0cJXL '], name: 'a JPEG XL picture' },
  { at: 0, starts: ['\xff\x4f\xff\x51', '\0\0\0\x0cjP  '], name: 'a JPEG 2000 picture' },
  { at: 0, starts: ['8BPS'], name: 'a Photoshop file' },
  { at: 0, starts: ['%PDF-'], name: 'a PDF document', fix: 'render its pages to PNG, or extract its text' },
  { at: 0, starts: ['PK\x03\x04'], name: 'a ZIP archive', fix: 'unpack it first' },
  { at: 0, starts: ['\x1f\x8b'], name: 'a gzip file', fix: 'unpack it first' },
  { at: 0, starts: ['version https://git-lfs'], name: 'a pointer of Git LFS', fix: 'fetch the file: git lfs pull' },
]

export const asBuffer = (bytes: Uint8Array): Buffer =>
  Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
