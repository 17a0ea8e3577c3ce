"""Raster files and descriptions that name another place, as text. `@OUT@` is the folder outside, `@WS@` the workspace, `@URL@`
the listener's address with the trap's own name behind it.

A named file is `secret.bin`: 400 bytes of bait, or `secret.tif`: the same as 20 by 20 pixels.
"""

from tests.e2e.mcp.hostile_files import MRF, RAW, SOURCE, VRT, WMS

SIZE = 'rasterXSize="20" rasterYSize="20"'
EXTENT = "<SRS>EPSG:4326</SRS><GeoTransform>0,1,0,20,0,-1</GeoTransform>"


def simple(name: str, relative: int = 0) -> str:
    return SOURCE.format(relative=relative, name=name)


def vrt(band: str, more: str = "", kind: str = "") -> str:
    return VRT.format(more=more, kind=f' subClass="{kind}"' if kind else "", band=band)


def _warped(name: str) -> str:
    return (
        f'<VRTDataset {SIZE} subClass="VRTWarpedDataset">{EXTENT}<VRTRasterBand dataType="Byte" band="1" subClass="VRTWarpedRasterBand"/>'
        "<BlockXSize>20</BlockXSize><BlockYSize>20</BlockYSize><GDALWarpOptions><ResampleAlg>NearestNeighbour</ResampleAlg>"
        f'<SourceDataset relativeToVRT="0">{name}</SourceDataset><BandList><BandMapping src="1" dst="1"/></BandList>'
        "</GDALWarpOptions></VRTDataset>"
    )


def _pansharpened(name: str) -> str:
    band = f'<SourceFilename relativeToVRT="0">{name}</SourceFilename><SourceBand>1</SourceBand>'
    return (
        f'<VRTDataset subClass="VRTPansharpenedDataset"><PansharpeningOptions><PanchroBand>{band}</PanchroBand>'
        f'<SpectralBand dstBand="1">{band}</SpectralBand></PansharpeningOptions></VRTDataset>'
    )


def _array(name: str) -> str:
    return (
        '<VRTDataset><Group name="/"><Dimension name="y" size="20"/><Dimension name="x" size="20"/><Array name="a"><DataType>Byte</DataType>'
        f'<DimensionRef ref="y"/><DimensionRef ref="x"/><Source><SourceFilename relativeToVRT="0">{name}</SourceFilename>'
        '<SourceBand>1</SourceBand></Source></Array></Group></VRTDataset>'
    )  # fmt: skip


# read as pixels or as a description; the named file is outside the workspace
FILES = {
    "vrt-complex.vrt": vrt(simple("@OUT@/secret.tif").replace("SimpleSource", "ComplexSource")),
    "vrt-kernel.vrt": vrt(simple("@OUT@/secret.tif").replace("SimpleSource", "KernelFilteredSource").replace("</SourceBand>", '</SourceBand><Kernel normalized="0"><Size>3</Size><Coefs>0 0 0 0 1 0 0 0 0</Coefs></Kernel>')),
    "vrt-warped.vrt": _warped("@OUT@/secret.tif"),
    "vrt-pansharpened.vrt": _pansharpened("@OUT@/secret.tif"),
    "vrt-array.vrt": _array("@OUT@/secret.tif"),
    "vrt-processed.vrt": '<VRTDataset subClass="VRTProcessedDataset"><Input><SourceFilename relativeToVRT="0">@OUT@/secret.tif</SourceFilename></Input>'
    "<ProcessingSteps><Step><Algorithm>BandAffineCombination</Algorithm></Step></ProcessingSteps></VRTDataset>",
    "vrt-mask.vrt": vrt(simple("ok.tif", 1), more=f'<MaskBand><VRTRasterBand dataType="Byte">{simple("@OUT@/secret.tif")}</VRTRasterBand></MaskBand>'),
    "vrt-overview.vrt": vrt(simple("ok.tif", 1) + '<Overview><SourceFilename relativeToVRT="0">@OUT@/secret.tif</SourceFilename><SourceBand>1</SourceBand></Overview>'),
    "vrt-nested.vrt": vrt(f'<SimpleSource><SourceFilename relativeToVRT="0">{vrt(simple("@OUT@/secret.tif")).replace("<", "&lt;")}</SourceFilename></SimpleSource>'),
    "vrt-name.vrt": vrt(simple("vrt://@OUT@/secret.tif?bands=1")),
    "vrt-subfile.vrt": vrt(simple("/vsisubfile/0_9999,@OUT@/secret.tif")),
    "vrt-cached.vrt": vrt(simple("/vsicached?file=@OUT@/secret.tif")),
    "vrt-zip.vrt": vrt(simple("/vsizip/{@OUT@/secret.zip}/secret.tif")),
    "vrt-gzip.vrt": vrt(simple("/vsigzip/@OUT@/secret.tif.gz")),
    "vrt-derived.vrt": vrt(simple("DERIVED_SUBDATASET:AMPLITUDE:@OUT@/secret.tif")),
    "vrt-raw-up.vrt": vrt(RAW.format(name="../outside/secret.bin").replace("<SourceFilename>", '<SourceFilename relativeToVRT="1">'), kind="VRTRawRasterBand"),
    "vrt-raw-proc.vrt": vrt(RAW.format(name="/proc/self/root@OUT@/secret.bin"), kind="VRTRawRasterBand"),
    "vrt-root.vrt": vrt(simple("/proc/self/root@OUT@/secret.tif")),
    "vrt-cwd.vrt": vrt(simple("/proc/1/cwd/../..@OUT@/secret.tif")),
    "as-tif.tif": vrt(simple("@OUT@/secret.tif")),
    "as-csv.csv": _warped("@OUT@/secret.tif"),
    "as-nc.nc": MRF.format(name="@OUT@/secret.bin"),
    "mrf-up.mrf": MRF.format(name="../outside/secret.bin"),
    "mrf-cached.mrf": "<MRF_META><CachedSource><Source>@OUT@/secret.tif</Source></CachedSource><Raster><Size x='20' y='20' c='1'/><Compression>NONE</Compression></Raster></MRF_META>",
    "gti-file.gti": "<GDALTileIndexDataset><IndexDataset>@WS@/tiles.geojson</IndexDataset><IndexLayer>tiles</IndexLayer><LocationField>location</LocationField>"
    "<SRS>EPSG:4326</SRS><ResX>1</ResX><ResY>1</ResY><MinX>0</MinX><MinY>0</MinY><MaxX>20</MaxX><MaxY>20</MaxY><BandCount>1</BandCount><Band band='1' dataType='Byte'/></GDALTileIndexDataset>",
    "tiles.geojson": '{"type":"FeatureCollection","name":"tiles","features":[{"type":"Feature","properties":{"location":"@OUT@/secret.tif"},"geometry":{"type":"Polygon","coordinates":[[[0,0],[20,0],[20,20],[0,20],[0,0]]]}}]}',
    "ozi.map": "OziExplorer Map Data File Version 2.2\nx\n@OUT@/secret.tif\n1 ,Map Code,\nWGS 84,WGS 84,   0.0000,   0.0000,WGS 84\n" + "Reserved\n" * 4 + "Map Projection,Latitude/Longitude,PolyCal,No,AutoCalOnly,No\nPoint01,xy,    0,    0,in, deg,   1, 0,N,   1, 0,E, grid,   ,           ,           ,N\n",
    "dimap.dim": "<Dimap_Document><Metadata_Id><METADATA_FORMAT version='1.1'>DIMAP</METADATA_FORMAT></Metadata_Id><Raster_Dimensions><NCOLS>20</NCOLS><NROWS>20</NROWS><NBANDS>1</NBANDS></Raster_Dimensions>"
    "<Data_Access><Data_File><DATA_FILE_PATH href='../outside/secret.tif'/></Data_File></Data_Access></Dimap_Document>",
    "til.til": 'numTiles = 1;\nBEGIN_GROUP = TILE_1\nfilename = "@OUT@/secret.tif";\nULColOffset = 0;\nULRowOffset = 0;\nLRColOffset = 19;\nLRRowOffset = 19;\nEND_GROUP = TILE_1\nEND;\n',
    "pds4.xml": "<Product_Observational xmlns='http://pds.nasa.gov/pds4/pds/v1'><File_Area_Observational><File><file_name>@OUT@/secret.bin</file_name></File><Array_2D_Image><offset unit='byte'>0</offset><axes>2</axes>"
    "<axis_index_order>Last Index Fastest</axis_index_order><Element_Array><data_type>UnsignedByte</data_type></Element_Array><Axis_Array><axis_name>Line</axis_name><elements>20</elements><sequence_number>1</sequence_number></Axis_Array>"
    "<Axis_Array><axis_name>Sample</axis_name><elements>20</elements><sequence_number>2</sequence_number></Axis_Array></Array_2D_Image></File_Area_Observational></Product_Observational>",
    "pds-up.lbl": 'PDS_VERSION_ID = PDS3\nRECORD_TYPE = FIXED_LENGTH\nRECORD_BYTES = 20\n^IMAGE = ("../outside/secret.bin", 1)\nOBJECT = IMAGE\nLINES = 20\nLINE_SAMPLES = 20\nSAMPLE_TYPE = UNSIGNED_INTEGER\nSAMPLE_BITS = 8\nEND_OBJECT = IMAGE\nEND\n',
    "isis.lbl": 'Object = IsisCube\n  Object = Core\n    StartByte = 1\n    ^Core = "../outside/secret.bin"\n    Format = BandSequential\n    Group = Dimensions\n      Samples = 20\n      Lines = 20\n      Bands = 1\n    End_Group\n    Group = Pixels\n      Type = UnsignedByte\n      ByteOrder = Lsb\n      Base = 0.0\n      Multiplier = 1.0\n    End_Group\n  End_Object\nEnd_Object\nEnd\n',
    "raster.ers": 'DatasetHeader Begin\n\tVersion = "6.0"\n\tName = "raster.ers"\n\tDataFile = "@OUT@/secret.bin"\n\tDataSetType = ERStorage\n\tDataType = Raster\n\tByteOrder = LSBFirst\n\tRasterInfo Begin\n\t\tCellType = Unsigned8BitInteger\n\t\tNrOfLines = 20\n\t\tNrOfCellsPerLine = 20\n\t\tNrOfBands = 1\n\tRasterInfo End\nDatasetHeader End\n',
    "ilwis.mpr": "[Ilwis]\nType=BaseMap\n[Map]\nSize=20 20\nType=MapStore\n[BaseMap]\nDomain=image.dom\nType=Map\n[MapStore]\nData=@OUT@/secret.bin\nStructure=Line\nStoreType=Byte\nType=MapStore\n",
    "racurs.prf": "<PHOTOMOD><Common ProgramVersion='x' DatFileExt='tif'/><LLevel Value='0' TileWidth='20' TileHeight='20' FileNameMask='@OUT@/secret'/></PHOTOMOD>",
    "paux.aux": "AuxilaryTarget: @OUT@/secret.bin\nRawDefinition: 20 20 1\nChanDefinition-1: 8U 0 1 20 Swapped\n",
    "overlay.kml": "<kml xmlns='http://www.opengis.net/kml/2.2'><Document><Region><LatLonAltBox><north>20</north><south>0</south><east>20</east><west>0</west></LatLonAltBox><Lod><minLodPixels>1</minLodPixels></Lod></Region>"
    "<GroundOverlay><Icon><href>@OUT@/secret.tif</href></Icon><LatLonBox><north>20</north><south>0</south><east>20</east><west>0</west></LatLonBox></GroundOverlay></Document></kml>",
    "kerchunk-up.json": r'{".zgroup": "{\"zarr_format\":2}", "a/.zarray": "{\"shape\":[20,20],\"chunks\":[20,20],\"dtype\":\"|u1\",\"compressor\":null,\"fill_value\":0,\"order\":\"C\",\"filters\":null,\"zarr_format\":2}", "a/0.0": ["../outside/secret.bin", 0, 400]}',
    "stacit.json": '{"type":"FeatureCollection","stac_version":"1.0.0","features":[{"type":"Feature","stac_version":"1.0.0","id":"x","properties":{"datetime":"2020-01-01T00:00:00Z","proj:epsg":4326,"proj:transform":[1,0,0,0,-1,20],"proj:shape":[20,20]},'
    '"geometry":null,"bbox":[0,0,20,20],"collection":"c","assets":{"a":{"href":"@OUT@/secret.tif","type":"image/tiff","roles":["data"],"proj:epsg":4326,"proj:transform":[1,0,0,0,-1,20],"proj:shape":[20,20]}}}]}',
}  # fmt: skip

# the named address is that of a listener on the host
URLS = {
    "net-vrt.vrt": vrt(simple("/vsicurl/@URL@.tif")),
    "net-vrt-stream.vrt": vrt(simple("/vsicurl_streaming/@URL@.tif")),
    "net-vrt-http.vrt": vrt(simple("@URL@.tif")),
    "net-vrt-query.vrt": vrt(simple("/vsicurl?max_retry=3&amp;url=@URL@.tif")),
    "net-vrt-s3.vrt": vrt(simple("/vsis3/bucket/x.tif")),
    "net-vrt-zip.vrt": vrt(simple("/vsizip/{/vsicurl/@URL@.zip}/x.tif")),
    "net-vrt-wms.vrt": vrt(simple("WMS:@URL@?SERVICE=WMS")),
    "net-vrt-wmts.vrt": vrt(simple("WMTS:@URL@")),
    "net-vrt-nc.vrt": vrt(simple('NETCDF:"@URL@":v')),
    "net-vrt-zarr.vrt": vrt(simple('ZARR:"/vsicurl/@URL@.zarr"')),
    "net-vrt-pg.vrt": vrt(simple("PG:host=@HOST@ port=@PORT@ dbname=x table=t")),
    "net-vrt-ogcapi.vrt": vrt(simple("OGCAPI:@URL@")),
    "net-vrt-daas.vrt": vrt(simple("DAAS:@URL@")),
    "net-wms.xml": WMS.format(url="@URL@/${z}/${x}/${y}"),
    "net-wms.tif": WMS.format(url="@URL@/${z}/${x}/${y}"),
    "net-wmts.xml": "<GDAL_WMTS><GetCapabilitiesUrl>@URL@</GetCapabilitiesUrl><Layer>x</Layer></GDAL_WMTS>",
    "net-wcs.xml": "<WCS_GDAL><ServiceURL>@URL@?</ServiceURL><Version>1.0.0</Version><CoverageName>x</CoverageName></WCS_GDAL>",
    "net-mrf.mrf": MRF.format(name="/vsicurl/@URL@.bin"),
    "net-gti.gti": "<GDALTileIndexDataset><IndexDataset>/vsicurl/@URL@.geojson</IndexDataset></GDALTileIndexDataset>",
    "net-stacit.json": '{"type":"FeatureCollection","stac_version":"1.0.0","features":[{"type":"Feature","stac_version":"1.0.0","id":"x","properties":{"proj:epsg":4326,"proj:transform":[1,0,0,0,-1,20],"proj:shape":[20,20]},"geometry":null,"bbox":[0,0,20,20],"assets":{"a":{"href":"@URL@.tif","roles":["data"],"proj:transform":[1,0,0,0,-1,20],"proj:shape":[20,20],"proj:epsg":4326}}}],"links":[{"rel":"next","href":"@URL@"}]}',
    "net-stacta.json": '{"type":"Feature","stac_version":"1.0.0","stac_extensions":["tiled-assets"],"id":"x","properties":{"tiles:tile_matrix_sets":{"WebMercatorQuad":"@URL@"},"tiles:tile_matrix_links":{"WebMercatorQuad":{"url":"@URL@","limits":{}}}},"asset_templates":{"a":{"href":"@URL@/{TileMatrix}/{TileRow}/{TileCol}.tif"}}}',
    "net-kerchunk.json": r'{".zgroup": "{\"zarr_format\":2}", "a/.zarray": "{\"shape\":[20,20],\"chunks\":[20,20],\"dtype\":\"|u1\",\"compressor\":null,\"fill_value\":0,\"order\":\"C\",\"filters\":null,\"zarr_format\":2}", "a/0.0": ["@URL@.bin", 0, 400]}',
    "net-esric.json": '{"name":"x","currentVersion":10.81,"tileInfo":{"rows":256,"cols":256,"dpi":96,"origin":{"x":0,"y":0},"spatialReference":{"wkid":102100},"lods":[{"level":0,"resolution":1,"scale":1}]},"resourceInfo":{"cacheInfo":{"storageInfo":{"packetSize":128,"storageFormat":"compactV2"}}},"minzoom":0,"url":"@URL@"}',
    "net-crs.vrt": vrt(simple("ok.tif", 1), more='<SRS>GEOGCS["x",DATUM["x",SPHEROID["x",6378137,298]],PRIMEM["Greenwich",0],UNIT["degree",0.0174532925199433],EXTENSION["PROJ4","+proj=longlat +ellps=WGS84 +nadgrids=@URL@.gsb +no_defs"]]</SRS><GeoTransform>0,1,0,20,0,-1</GeoTransform>'),
}  # fmt: skip
